"""What goes into the delivery service and what comes out of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from goqueue.errors import GoQueueError
from goqueue.records import Header, TopicPartition

RECEIVE_BYTES_MAX = 4 * 1024 * 1024


class Action(StrEnum):
    """What a consumer says about a message that it holds."""

    ACK = "ack"
    NACK = "nack"
    REJECT = "reject"
    EXTEND = "extend"
    # Give it back without counting a failure.
    RELEASE = "release"


class Start(StrEnum):
    """Where a group that is new to a partition begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class GroupSettings(msgspec.Struct, frozen=True):
    """What delivery wants to know of a queue group."""

    # Fields of DeliveryPolicy that the group wants otherwise.
    wishes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    start: Start = Start.EARLIEST
    # Tells the group from one of its name that was deleted; 0: made by an earlier version.
    incarnation: int = 0


# Asked before every receive: marks the group a queue group on first use, or raises GroupModeMismatch.
GroupSettingsOf = Callable[[str], Awaitable[GroupSettings]]


class Receive(msgspec.Struct, frozen=True):
    """Up to `limit` messages for one consumer of a group, from any of the places."""

    group: str
    consumer: str
    places: Sequence[TopicPartition]
    limit: int
    max_bytes: int = RECEIVE_BYTES_MAX
    wait_ms: int = 0
    # None: what the policy says.
    visibility_ms: int | None = None


# Names the one queue group that gets a record; to all others it counts as settled. Only in transactional batches.
ADDRESS_HEADER = "goqueue-redriven-for"


class Delivery(NamedTuple):
    """One message, and the receipt with which to answer for it until `visible_at_ms`."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    priority: int
    receipt: str
    delivery_count: int
    visible_at_ms: int
    first_delivered_ms: int


class Settlement(NamedTuple):
    """What to do about one receipt."""

    receipt: str
    action: Action
    # NACK: when to try again instead of after the back-off.
    delay_ms: int | None = None
    # NACK, REJECT: goes with the dead letter.
    reason: str = ""
    # EXTEND: how long from now; None: what the policy says.
    visibility_ms: int | None = None


class SettleResult(NamedTuple):
    """What became of one settlement. With an error only the receipt means anything."""

    receipt: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    # acked, requeued, dlq, rejected, extended or released
    action_taken: str = ""
    delivery_count: int = 0
    next_visible_ms: int | None = None
    dead_letter_topic: str | None = None
    # Everything of the group below it is settled, in this partition.
    committed_offset: int = -1
    # Messages of the partition that the group's consumers hold.
    in_flight: int = 0
    error: GoQueueError | None = None


class AcquiredRange(NamedTuple):
    """Neighbouring offsets that a consumer holds, all delivered equally often."""

    first: int
    last: int
    delivery_count: int


class RangeSettlement(NamedTuple):
    """What a consumer says about the offsets it holds in a range; others in the range are left alone."""

    first: int
    last: int
    action: Action
    reason: str = ""
    # NACK: when to try again instead of after the back-off.
    delay_ms: int | None = None
