"""What a topic asks of its records, from its settings and from those of its subjects."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from goqueue.metadata.settings.topic_config import TopicConfig
from goqueue.schemas.state import RegistryState

_SUFFIXES = {False: "-value", True: "-key"}


class CheckLevel(IntEnum):
    """How closely records are looked at."""

    OFF = 0
    # They name a schema that is allowed here.
    ID = 1
    # Their values are valid by it.
    FULL = 2


_LEVELS = {"off": CheckLevel.OFF, "id": CheckLevel.ID, "full": CheckLevel.FULL}


class Rule(NamedTuple):
    """What is asked of keys, or of values."""

    level: CheckLevel
    is_key: bool
    # topic, record or topic-record.
    strategy: str
    # Whether a value that names no schema is checked against the latest one.
    takes_latest: bool


def rule_of(config: TopicConfig, topic: str, state: RegistryState, *, is_key: bool) -> Rule:
    """What is asked of the keys or values of a topic. The switch of a subject overrides the topic's setting."""
    if is_key:
        level, confluent = _LEVELS[config.schema_key_validation], config.confluent_key_validation
    else:
        level, confluent = _LEVELS[config.schema_validation], config.confluent_value_validation
    if level is CheckLevel.OFF and confluent:
        level = CheckLevel.ID
    for subject in subjects_of(topic, is_key=is_key) if state.switched else ():
        if subject in state.switched:
            level = (level or CheckLevel.FULL) if state.switched[subject] else CheckLevel.OFF
            break
    return Rule(level, is_key, config.schema_subjects, config.schema_missing == "latest")


def subjects_of(topic: str, *, is_key: bool) -> tuple[str, ...]:
    """The subjects of a topic, by its name alone. A subject that is called as its topic is has its values."""
    named = f"{topic}{_SUFFIXES[is_key]}"
    return (named,) if is_key else (named, topic)


def is_set(config: TopicConfig) -> bool:
    """Whether the topic itself asks for anything."""
    return (
        config.schema_validation != "off"
        or config.schema_key_validation != "off"
        or config.confluent_value_validation
        or config.confluent_key_validation
    )
