"""Producer state: what this partition remembers of every idempotent or transactional producer.

Per producer: its epoch, the last few batches by sequence, and its open transaction, if any.
`check` looks and refuses but changes nothing; `apply` changes and cannot refuse. The log
writes between the two, so a failed write is never mistaken for a stored one.
The rules are those of Kafka's ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.batch import CONTROL, TRANSACTIONAL
from goqueue.errors import DuplicateSequence, InvalidTransactionState, OutOfOrderSequence, ProducerFenced
from goqueue.log.state.producer_snapshot import ProducerEntry, StoredBatch, decode_producers, encode_producers
from goqueue.records import AbortedTransaction

if TYPE_CHECKING:
    from goqueue.codec.batch import BatchHeader
    from goqueue.ports import Buffer

__all__ = ["LastBatch", "ProducerInfo", "ProducerState", "StoredBatch"]

# Sequences count from 0 to 2^31-1 and then from 0 again.
_SEQUENCE_MASK = 0x7FFF_FFFF
# How far back we claim to know a producer's history: half the circle, so that "behind" and
# "ahead" cannot be confused.
_KNOWN_MAX = 1 << 30
# Skips the keyword handling of a NamedTuple's own constructor: this runs for every batch.
_stored_batch = tuple.__new__


@dataclass(frozen=True, slots=True)
class ProducerInfo:
    """One producer as an operator sees it; -1 stands for "none", as on Kafka's wire."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    open_first_offset: int


class LastBatch(NamedTuple):
    """What compaction must keep of a producer: its last data batch, else its last marker's epoch."""

    last_offset: int
    epoch: int


class ProducerState:
    """All producers of one partition."""

    __slots__ = (
        "_first_open",
        "_first_unstable",
        "_kept",
        "_open",
        "_producers",
        "_unsettled",
        "expiry_ms",
        "window_batches",
    )

    def __init__(self, window_batches: int = 5, expiry_ms: int = 24 * 3600 * 1000) -> None:
        self.window_batches = window_batches
        self.expiry_ms = expiry_ms
        self._producers: dict[int, ProducerEntry] = {}
        # Open transactions, producer id -> first offset. Appends come in offset order, so the
        # first item is always the oldest.
        self._open: dict[int, int] = {}
        self._first_open: int | None = None
        self._first_unstable: int | None = None
        # Closed transactions whose marker the high watermark has not passed: (marker, first).
        self._unsettled: deque[tuple[int, int]] = deque()
        # Producers of the broker itself, whose next repeat may come at any time.
        self._kept: set[int] = set()

    def check(self, batch: BatchHeader, *, coordinator_epoch: int = -1) -> StoredBatch | None:
        """Say whether the batch may be written: None if so, the stored original if it is a retry.

        Raises OutOfOrderSequence, DuplicateSequence, ProducerFenced, InvalidTransactionState.
        A producer of whom nothing is known may begin at any sequence, as in Kafka since 2.5:
        its history may have been deleted by retention, and refusing it would stop it for good.
        """
        entry = self._producers.get(batch.producer_id)
        if entry is None:
            return None
        epoch = batch.producer_epoch
        if epoch < entry.epoch:
            raise ProducerFenced(
                f"producer {batch.producer_id} has epoch {epoch}, but epoch {entry.epoch} has written since"
            )
        attributes = batch.attributes
        if attributes & CONTROL:
            self._check_marker(entry, coordinator_epoch)
            return None
        base = batch.base_sequence
        if base >= 0:
            if epoch != entry.epoch:
                if base != 0:
                    raise OutOfOrderSequence(
                        f"producer {batch.producer_id} begins epoch {epoch} at sequence {base} instead of 0"
                    )
            elif base != entry.next_sequence:
                return self._judge_out_of_sequence(entry, batch)
        if entry.open_first_offset >= 0 and not attributes & TRANSACTIONAL:
            raise InvalidTransactionState(
                f"producer {batch.producer_id} wrote outside its transaction, open since offset "
                f"{entry.open_first_offset}"
            )
        return None

    def apply(
        self,
        batch: BatchHeader,
        base_offset: int,
        *,
        commit: bool | None,
        now_ms: int,
        coordinator_epoch: int = -1,
    ) -> AbortedTransaction | None:
        """Take note of a batch that now lies at `base_offset`; an abort marker returns what it aborts.

        `commit` is None for data, else what the marker says. `now_ms` is the time of the append:
        a replay passes the frame's, so that a follower forgets when its leader does.
        """
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerEntry(producer_id, batch.producer_epoch, self.window_batches)
        elif batch.producer_epoch > entry.epoch:
            entry.begin_epoch(batch.producer_epoch)
        entry.last_timestamp_ms = now_ms
        if commit is not None:
            return self._close_transaction(entry, base_offset, commit=commit, coordinator_epoch=coordinator_epoch)
        delta = batch.last_offset_delta
        entry.last_offset = last_offset = base_offset + delta
        base = batch.base_sequence
        if base >= 0 and batch.producer_epoch == entry.epoch:
            # A gap is only ever seen on replay, where compaction or retention removed batches.
            known = delta + 1 if base != entry.next_sequence else entry.known + delta + 1
            entry.known = known if known < _KNOWN_MAX else _KNOWN_MAX  # noqa: FURB136 - min() costs a call
            last = (base + delta) & _SEQUENCE_MASK
            entry.next_sequence = (last + 1) & _SEQUENCE_MASK
            entry.window.append(_stored_batch(StoredBatch, (base, last, base_offset, last_offset, now_ms)))
        if batch.attributes & TRANSACTIONAL and entry.open_first_offset < 0:
            entry.open_first_offset = base_offset
            self._open[producer_id] = base_offset
            if self._first_open is None:
                self._first_open = base_offset
                if self._first_unstable is None:
                    self._first_unstable = base_offset
        return None

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """The sequence that is expected next; None of a producer of whom nothing is known."""
        entry = self._producers.get(producer_id)
        if entry is None:
            return None
        return entry.next_sequence if entry.epoch == epoch else 0

    def is_open_at(self, producer_id: int, offset: int) -> bool:
        """Whether what the producer wrote at this offset is part of a transaction that has not ended."""
        first = self._open.get(producer_id)
        return first is not None and offset >= first

    def has_open(self, producer_id: int) -> bool:
        """Whether the producer has a transaction open."""
        return producer_id in self._open

    def knows(self, producer_id: int) -> bool:
        """Whether anything is remembered of the producer."""
        return producer_id in self._producers

    def first_open_offset(self) -> int | None:
        """Where the oldest transaction without a marker begins."""
        return self._first_open

    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker may still be lost."""
        return self._first_unstable

    def has_seen_transactions(self) -> bool:
        """Whether any producer that is remembered has begun or ended one here."""
        return bool(self._open) or any(entry.coordinator_epoch >= 0 for entry in self._producers.values())

    def settle(self, high_watermark: int) -> None:
        """Take note that markers below the high watermark are replicated and cannot be lost.

        Until then a closed transaction counts as undecided. Call it whenever the high watermark
        moves; it costs nothing while no transaction waits.
        """
        unsettled = self._unsettled
        if unsettled and unsettled[0][0] < high_watermark:
            while unsettled and unsettled[0][0] < high_watermark:
                unsettled.popleft()
            self._find_first_unstable()

    def expire(self, now_ms: int) -> int:
        """Forget producers idle for longer than the expiry, unless a transaction is open. Returns how many."""
        horizon_ms = now_ms - self.expiry_ms
        idle = [
            entry.producer_id
            for entry in self._producers.values()
            if entry.last_timestamp_ms <= horizon_ms
            and entry.open_first_offset < 0
            and entry.producer_id not in self._kept
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The epoch of the coordinator that last ended a transaction of this producer; -1 if none did."""
        entry = self._producers.get(producer_id)
        return -1 if entry is None else entry.coordinator_epoch

    def keep(self, producer_id: int) -> None:
        """Never call this producer idle, for as long as this object lives."""
        self._kept.add(producer_id)

    def producers(self) -> list[ProducerInfo]:
        """Every producer, for operators."""
        return [
            ProducerInfo(
                producer_id=entry.producer_id,
                epoch=entry.epoch,
                last_sequence=entry.window[-1].last_sequence if entry.window else -1,
                last_timestamp_ms=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                open_first_offset=entry.open_first_offset,
            )
            for entry in self._producers.values()
        ]

    def last_batches(self) -> dict[int, LastBatch]:
        """Per producer, what compaction must not remove lest a restart forget its sequence or epoch."""
        return {entry.producer_id: LastBatch(entry.last_offset, entry.epoch) for entry in self._producers.values()}

    def reconfigure(self, window_batches: int, expiry_ms: int) -> None:
        """Take new limits; a smaller window forgets the oldest batches at once."""
        self.expiry_ms = expiry_ms
        if window_batches != self.window_batches:
            self.window_batches = window_batches
            for entry in self._producers.values():
                entry.window = deque(entry.window, maxlen=window_batches)

    def encode(self) -> bytes:
        """A snapshot, with version and checksum."""
        return encode_producers(self._producers.values())

    @classmethod
    def decode(
        cls, data: Buffer, window_batches: int, expiry_ms: int, *, where: str = "producer snapshot"
    ) -> ProducerState:
        """The state that `encode` wrote; DamagedIndex if a single bit of it has changed."""
        state = cls(window_batches, expiry_ms)
        for entry in decode_producers(data, window_batches, where=where):
            state._producers[entry.producer_id] = entry
        open_entries = [entry for entry in state._producers.values() if entry.open_first_offset >= 0]
        for entry in sorted(open_entries, key=lambda entry: entry.open_first_offset):
            state._open[entry.producer_id] = entry.open_first_offset
        state._first_open = state._first_unstable = next(iter(state._open.values()), None)
        return state

    def __len__(self) -> int:
        return len(self._producers)

    def _check_marker(self, entry: ProducerEntry, coordinator_epoch: int) -> None:
        # A marker by a coordinator that has been replaced comes from a zombie. -1: not known here.
        if 0 <= coordinator_epoch < entry.coordinator_epoch:
            raise InvalidTransactionState(
                f"marker for producer {entry.producer_id} comes from coordinator epoch {coordinator_epoch}, "
                f"but epoch {entry.coordinator_epoch} has written since"
            )

    def _judge_out_of_sequence(self, entry: ProducerEntry, batch: BatchHeader) -> StoredBatch:
        """The same epoch, but not the next sequence: a retry we remember, one we forgot, or a gap."""
        base = batch.base_sequence
        delta = batch.last_offset_delta
        last = (base + delta) & _SEQUENCE_MASK
        for stored in entry.window:
            if stored.first_sequence == base and stored.last_sequence == last:
                return stored
        # Only what we saw ourselves counts as stored: a producer that began at sequence 100 here
        # may have batches before it in flight, and calling those duplicates would lose them.
        # No marker resets this: sequences go on across transactions of one epoch.
        behind = (entry.next_sequence - base) & _SEQUENCE_MASK
        oldest = entry.window[0].first_sequence if entry.window else entry.next_sequence
        until_oldest = (oldest - base) & _SEQUENCE_MASK
        if delta < until_oldest <= behind <= entry.known:
            raise DuplicateSequence(
                f"producer {batch.producer_id} sent sequences {base} to {last} again, stored so long ago that their "
                "offsets are forgotten"
            )
        raise OutOfOrderSequence(
            f"producer {batch.producer_id} sent sequence {base}, expected {entry.next_sequence} (epoch {entry.epoch})"
        )

    def _close_transaction(
        self, entry: ProducerEntry, marker_offset: int, *, commit: bool, coordinator_epoch: int
    ) -> AbortedTransaction | None:
        entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
        first = entry.open_first_offset
        if first < 0:
            return None  # a marker without data, or written twice: it decides nothing
        entry.open_first_offset = -1
        del self._open[entry.producer_id]
        if first == self._first_open:
            self._first_open = next(iter(self._open.values()), None)
        self._unsettled.append((marker_offset, first))
        self._find_first_unstable()
        if commit:
            return None
        stable = self._first_open if self._first_open is not None else marker_offset + 1
        return AbortedTransaction(entry.producer_id, first, marker_offset, stable)

    def _find_first_unstable(self) -> None:
        first = min((first for _, first in self._unsettled), default=None)
        if first is None or (self._first_open is not None and self._first_open < first):
            first = self._first_open
        self._first_unstable = first
