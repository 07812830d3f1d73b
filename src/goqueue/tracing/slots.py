"""Where the events of delayed messages are recorded: under a name and an id that are made of their topic's.

A slot is an offset in a delay log, so it must not be taken for an offset of the topic itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid5

if TYPE_CHECKING:
    from goqueue.broker.topics import TopicService

_PREFIX = "__delayed:"


def slots_topic(topic: str) -> str:
    """The name under which slots of a topic are shown. No topic can be called so."""
    return _PREFIX + topic


def topic_of_slots(name: str) -> str | None:
    """The topic whose slots are shown under this name; None if it is no such name."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def name_of(topic_id: UUID, topics: TopicService) -> str | None:
    """The name of a topic, or of a topic's slots, by its id; None if there is none."""
    found = topics.find_by_id(topic_id)
    if found is not None:
        return found.name
    # Version 5 ids are made of others.
    held_for = (
        (one.name for one in topics.list() if slots_id(one.topic_id) == topic_id) if topic_id.version == 5 else ()
    )
    return next((slots_topic(name) for name in held_for), None)


def slots_id(topic_id: UUID) -> UUID:
    """The id under which slots of a topic are recorded."""
    return uuid5(topic_id, "delay")
