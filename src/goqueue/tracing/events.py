"""What can happen to messages, and what is said about it.

An event concerns the offsets `first` to `last` of one partition of one topic. Kinds and attributes have numbers
that are stored, so a number is never given to anything else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

# Attribute, value, attribute, value: flat, so that it can be a key.
Attributes = tuple[int | str, ...]


class Kind(IntEnum):
    """What happened."""

    PUBLISH_RECEIVED = 1
    PUBLISH_PARTITIONED = 2
    PUBLISH_PERSISTED = 3
    PUBLISH_SYNCED = 4
    PUBLISH_REPLICATED = 5
    CONSUME_FETCHED = 10
    CONSUME_ACKED = 11
    CONSUME_NACKED = 12
    CONSUME_REJECTED = 13
    CONSUME_RELEASED = 14
    VISIBILITY_TIMEOUT = 20
    VISIBILITY_EXTENDED = 21
    DLQ_ROUTED = 30
    REDRIVE_SENT = 31
    DELAY_SCHEDULED = 40
    DELAY_READY = 41
    DELAY_CANCELLED = 42
    DELAY_EXPIRED = 43
    DELAY_RESCHEDULED = 44
    GROUP_COMMITTED = 50
    TRANSACTION_COMMITTED = 60
    TRANSACTION_ABORTED = 61
    SCHEMA_REJECTED = 70
    LOG_REMOVED = 80
    # Events that were dropped because too many waited to be written.
    NOT_KEPT = 90

    @property
    def text(self) -> str:
        """The name that users see, "publish.received"."""
        return _TEXTS[self]


_TEXTS = {kind: kind.name.lower().replace("_", ".", 1) for kind in Kind}
_TEXTS[Kind.NOT_KEPT] = "events.not_kept"
KIND_OF_TEXT = {text: kind for kind, text in _TEXTS.items()}


class At:
    """What an attribute says. Those below 32 are texts, the others are integers.

    Plain integers: they are parts of keys on the hot path, and members of an enum are hashed by name.
    """

    CLIENT = 1
    PRINCIPAL = 2
    ADDRESS = 3
    PROTOCOL = 4
    GROUP = 5
    MEMBER = 6
    REASON = 7
    ERROR = 8
    TO_TOPIC = 9
    FROM_TOPIC = 10
    # 32 hex digits: the trace id in the record's own traceparent header.
    TRACE = 11
    # 16 hex digits: the span in that header.
    PARENT = 12
    NODE = 13

    PRODUCER_ID = 32
    PRODUCER_EPOCH = 33
    ACKS = 34
    LANE = 35
    DELIVERY_COUNT = 36
    LOCK_MS = 37
    WAIT_MS = 38
    DUE_MS = 39
    TO_PARTITION = 40
    # Where the first message of the range went; the others follow it.
    TO_OFFSET = 41
    FROM_PARTITION = 42
    FROM_OFFSET = 43
    COMMITTED = 44
    COUNT = 45
    FROM_MS = 46
    UNTIL_MS = 47
    LEADER_EPOCH = 48


FIRST_NUMBER = 32
# The name that users see, "delivery_count".
ATTRIBUTE_NAMES = {value: name.lower() for name, value in vars(At).items() if isinstance(value, int)}


class Subject(NamedTuple):
    """One partition of one topic. The id, because another topic may get the same name."""

    topic_id: UUID
    partition: int


class Noted(NamedTuple):
    """An event as hooks report it."""

    kind: Kind
    topic_id: UUID
    partition: int
    first: int
    last: int
    at_ms: int
    attributes: Attributes = ()


class Happened(NamedTuple):
    """An event of one message, as it is read back."""

    at_ms: int
    kind: Kind
    # For the message at `first` attributes that name offsets are exact; later ones are that much further on.
    first: int
    last: int
    attributes: Attributes

    def get(self, name: int, default: int | str | None = None) -> int | str | None:
        """One attribute."""
        attributes = self.attributes
        for at in range(0, len(attributes), 2):
            if attributes[at] == name:
                return attributes[at + 1]
        return default
