"""Values that travel between the rooms of the house."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; a tuple because it is a key on the hot path."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogKind(IntEnum):
    """The logs of a partition's family, which are led together: its messages, and what is known about them."""

    DATA = 0
    # Leases, acknowledgements and retries of the queue groups that read the partition.
    DELIVERY = 1
    # Messages that are held for the partition until they are due.
    DELAY = 2


class Acks(IntEnum):
    """How safe a record must be before its producer is told so. Values are Kafka's."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Isolation(IntEnum):
    """What a reader may see of open and aborted transactions. Values are Kafka's."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Priority(IntEnum):
    """The five lanes, most urgent first."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


class TimestampType(IntEnum):
    """Whose clock a record's timestamp is. Values are Kafka's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


Header = tuple[str, bytes | None]
# W3C's name of the header that says whose trace a record is part of.
TRACEPARENT = "traceparent"


class Record(NamedTuple):
    """One message, taken out of its batch; a tuple because readers make many of them."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Appended(NamedTuple):
    """What became of one batch: where it lies, and whether it lay there before.

    A tuple, because one is made for every batch and a frozen dataclass takes four times as long.
    """

    base_offset: int
    last_offset: int
    log_start_offset: int
    duplicate: bool = False
    # -1 unless the topic stamps records itself (message.timestamp.type=LogAppendTime).
    stamped_ms: int = -1

    @property
    def end_offset(self) -> int:
        """The first offset behind the batch."""
        return self.last_offset + 1


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A producer's aborted transaction: its records from `first` to `last` are not to be shown."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class NewRecord(NamedTuple):
    """One message on its way in: it has no offset yet. A tuple because front-ends make many of them."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    # None: the time at which the broker takes it.
    timestamp_ms: int | None = None
