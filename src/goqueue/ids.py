"""Identifiers and the rules for names.

A name that becomes a directory is checked here and nowhere else: whoever holds a
`TopicName` may join it to a path.
"""

from __future__ import annotations

import re
from typing import NewType

from goqueue.errors import InvalidGroupId, InvalidTopicName, InvalidTransactionalId, ReservedTopicName, TopicNameTooLong

TopicName = NewType("TopicName", str)
GroupId = NewType("GroupId", str)
TransactionalId = NewType("TransactionalId", str)

TOPIC_NAME_CHARS_MAX = 249
GROUP_ID_CHARS_MAX = 255
TRANSACTIONAL_ID_CHARS_MAX = 255
INTERNAL_PREFIX = "__"
DEAD_LETTER_SUFFIX = ".dlq"
# The topic of records that their schema does not allow.
QUARANTINE_SUFFIX = ".invalid"
# The queue group that sends dead letters back: what it has settled in a dead-letter topic was sent.
REDRIVE_GROUP = GroupId("goqueue-redrive")

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_internal(name: str) -> bool:
    """Topics that begin with two underscores belong to the broker."""
    return name.startswith(INTERNAL_PREFIX)


def is_internal_group(group: str) -> bool:
    """Groups in which the broker itself reads. Users' own groups may have any other name, underscores included."""
    return group == REDRIVE_GROUP


def parse_topic_name(name: str) -> TopicName:
    """Accept a topic name, or say what is wrong with it."""
    if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidTopicName(name)
    return TopicName(name)


def parse_user_topic_name(name: str) -> TopicName:
    """Accept a name that a client may create or write to."""
    topic = parse_topic_name(name)
    if is_internal(topic):
        raise ReservedTopicName(topic)
    return topic


def parse_new_topic_name(name: str) -> TopicName:
    """Accept a name for a new topic: the name of its dead-letter topic must fit too."""
    topic = parse_user_topic_name(name)
    chars_max = TOPIC_NAME_CHARS_MAX - len(DEAD_LETTER_SUFFIX)
    if len(topic) > chars_max and not topic.endswith(DEAD_LETTER_SUFFIX):
        raise TopicNameTooLong(topic, chars_max)
    return topic


def parse_group_id(group: str) -> GroupId:
    """Accept a group id: any printable text, since it never becomes a path."""
    if not 1 <= len(group) <= GROUP_ID_CHARS_MAX or not group.isprintable():
        raise InvalidGroupId(group)
    return GroupId(group)


def parse_transactional_id(transactional_id: str) -> TransactionalId:
    """Accept a transactional id: any printable text, since it never becomes a path."""
    if not 1 <= len(transactional_id) <= TRANSACTIONAL_ID_CHARS_MAX or not transactional_id.isprintable():
        raise InvalidTransactionalId(transactional_id)
    return TransactionalId(transactional_id)
