"""Targets: the partitions that delayed messages go to, each with its sequence and its queue of batches.

A partition's messages are held in its own delay log, so the target of a slot is known from where it lies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from goqueue.broker.arrivals.batch_checks import keyless
from goqueue.broker.arrivals.deduplication.ids import digest_of
from goqueue.delay.holding.records import Fire, FireKey, Slot, SlotKey, SlotState
from goqueue.delay.holding.store import Pair, Store
from goqueue.errors import InvalidRecord, MessageTooLarge
from goqueue.metadata.settings.topic_config import TopicConfig

# What one batch to a topic may hold, whatever the topic allows.
FIRE_RECORDS_MAX = 1000
FIRE_BYTES_MAX = 512 * 1024
_BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 50
_SEQUENCE_END = 2**31


@dataclass(slots=True)
class FiredBatch:
    """A batch whose fire is stored: it may be appended once that is safe and the batch is due."""

    fire: Fire
    slots: list[Slot]
    # It was fired in an earlier term, and may be in its partition already.
    resent: bool = False
    # Its fire cannot be forgotten any more.
    is_safe: bool = False


@dataclass(slots=True, eq=False)
class Target:
    """One partition, for one term. Batches are appended in the order of their sequences."""

    store: Store
    # -1 until this term fires something there: an earlier term's producer must not be taken up again.
    producer_id: int = -1
    next_sequence: int = 0
    queue: deque[FiredBatch] = field(default_factory=deque)
    # Not tried again before, after a failure that may pass.
    paused_to_ms: int = 0
    # New fires are being stored for all that waits: until they are, nothing is appended under the former ones.
    is_renewing: bool = False

    def take_sequence(self, count: int) -> int:
        """The first of so many sequences."""
        first = self.next_sequence
        self.next_sequence = (first + count) % _SEQUENCE_END
        return first


def slices(due: Sequence[tuple[int, Slot]], batch_bytes_max: int) -> list[list[tuple[int, Slot]]]:
    """Slots of one target and one tick, cut into batches that the topic takes."""
    bytes_max = min(FIRE_BYTES_MAX, batch_bytes_max)
    cut: list[list[tuple[int, Slot]]] = []
    size = bytes_max
    for one in due:
        slot = one[1]
        needs = size_of(slot)
        if size + needs > bytes_max or len(cut[-1]) >= FIRE_RECORDS_MAX:
            cut.append([])
            size = _BATCH_OVERHEAD_BYTES
        cut[-1].append(one)
        size += needs
    return cut


def size_of(slot: Slot) -> int:
    """Bytes that the message takes in a batch, at most."""
    size = _RECORD_OVERHEAD_BYTES + len(slot.key or b"") + len(slot.value or b"")
    for name, value in slot.headers:
        size += 10 + len(name.encode()) + len(value or b"")
    return size


def check_holds(config: TopicConfig, slot: Slot) -> None:
    """Refuse a message that is not to be held back, or that its topic would refuse."""
    if config.dedup_window_ms and digest_of(slot.headers) is not None:
        raise InvalidRecord(
            "a delayed message cannot have a deduplication id: its window would be over when it is delivered",
            field="deduplication_id",
            hint="leave the id out, and cancel the first message instead of sending a second",
        )
    check_takes(config, slot)


def check_takes(config: TopicConfig, slot: Slot) -> None:
    """Refuse a message that its topic would refuse."""
    if slot.key is None and config.is_compacted:
        raise keyless(0)
    size = _BATCH_OVERHEAD_BYTES + size_of(slot)
    if size > config.max_message_bytes:
        raise MessageTooLarge(size, config.max_message_bytes)


def fire_pairs(fired: Sequence[FiredBatch]) -> list[Pair]:
    """What is written before any of it is appended."""
    return [(FireKey(one.fire.slots[0]), one.fire) for one in fired]


def done_pairs(fire: Fire) -> list[Pair]:
    """What is written once the batch is safe in its topic.

    The fire comes last: many pairs are written in several batches, and slots whose fire is gone would be fired again
    after a crash in between. A fire without some of its slots is known to be delivered.
    """
    return [*((SlotKey(slot), None) for slot in fire.slots), (FireKey(fire.slots[0]), None)]


def parked(slot: Slot, reason: str) -> Slot:
    """The slot as it is kept when its topic does not take it."""
    return Slot(
        slot.due_ms,
        slot.topic,
        slot.topic_id,
        slot.partition,
        slot.key,
        slot.value,
        slot.headers,
        slot.created_ms,
        SlotState.EXPIRED.value,
        reason,
        slot.schedule,
    )
