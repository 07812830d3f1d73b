"""The way out: stored batches, as they lie in the log, up to what a reader may see.

`fetch_now` answers at once or not at all; `fetch` waits, with one future for the whole
request and no task. Errors concern one partition and are values beside the others' batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.broker.reading.waiters import Waiter, Waiters
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.caller import ANONYMOUS, Caller
from goqueue.config import LimitsConfig
from goqueue.errors import (
    CorruptFrame,
    FencedLeaderEpoch,
    GoQueueError,
    NotLeader,
    OffsetOutOfRange,
    StorageError,
    UnknownLeaderEpoch,
)
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reads import Read
from goqueue.ports import ColdRead, Offload
from goqueue.records import AbortedTransaction, Isolation, TopicPartition

# Partitions of one fetch that are opened while it waits for another one.
_OPENED_AHEAD = 16


class PartitionRead(NamedTuple):
    """One partition of a fetch: from where, and how much at most."""

    topic: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FetchQuery:
    """A fetch of any number of partitions; with too little to give it waits up to `max_wait_ms`."""

    reads: Sequence[PartitionRead]
    max_bytes: int
    min_bytes: int = 1
    max_wait_ms: int = 0
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    # Whoever gives only some of the records on counts those, by `count_given`.
    is_counted: bool = True


class FetchedPartition(NamedTuple):
    """What one partition gave. With an error the offsets are -1, unless they are known."""

    topic: str
    partition: int
    error: GoQueueError | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction]
    batches: Sequence[memoryview]


class OnGiven(Protocol):
    """Told of records that a reader is given. It must not raise."""

    def __call__(self, partition: Partition, first: int, last: int, caller: Caller, /) -> None:
        """From `first` to `last`."""
        ...


class FetchService:
    """Reads partitions for everyone who wants closed batches."""

    def __init__(
        self,
        partitions: Partitions,
        *,
        offload: Offload,
        limits: LimitsConfig,
        answers: AnswerBudget,
        on_given: OnGiven | None = None,
    ) -> None:
        self._on_given = on_given
        self._partitions = partitions
        self._offload = offload
        self._limits = limits
        self._answers = answers

    def count_given(
        self, at: TopicPartition, messages: int, size_bytes: int, first: int, last: int, caller: Caller = ANONYMOUS
    ) -> None:
        """Records were given to a reader, out of a query that does not count by itself."""
        place = self._partitions.leader(*at)
        place.traffic.messages_out += messages
        place.traffic.bytes_out += size_bytes
        if self._on_given is not None:
            self._on_given(place, first, last, caller)

    def _given(self, query: FetchQuery, answer: _Answer, caller: Caller) -> list[FetchedPartition]:
        if self._on_given is not None and query.is_counted:
            for place, _, messages, first in answer.taken:
                if messages:
                    self._on_given(place, first, first + messages - 1, caller)
        return answer.given()

    def fetch_now(self, query: FetchQuery, *, caller: Caller = ANONYMOUS) -> list[FetchedPartition] | None:
        """The answer, if it is there without waiting for records or for the disk."""
        answer = _Answer(query, self._limits.fetch_bytes_max)
        try:
            for read in query.reads:
                self._read(read, answer)
        except ColdRead:
            return None
        return self._given(query, answer, caller) if query.max_wait_ms <= 0 or answer.is_enough() else None

    async def fetch(self, query: FetchQuery, *, caller: Caller = ANONYMOUS) -> list[FetchedPartition]:
        """The answer, once there is enough of it or the time is up; smaller where memory for answers is short."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(query.max_wait_ms, self._limits.fetch_wait_ms_max) / 1000
        while True:
            # Many who waited for the same records wake at once: they are read for as many as there is memory for.
            has_room = await self._answers.has_room(max(deadline - loop.time(), 0))
            answer = _Answer(query, self._limits.fetch_bytes_max if has_room else 0)
            await self._read_all(query, answer)
            seconds_left = deadline - loop.time()
            if seconds_left <= 0 or answer.is_enough():
                self._answers.pass_on(answer.size)
                return self._given(query, answer, caller)
            # A cold read lets others write meanwhile; what came then must not be slept over.
            if answer.is_current():
                await Waiter(answer.missing_bytes()).wait(answer.places(), seconds_left)

    async def _read_all(self, query: FetchQuery, answer: _Answer) -> None:
        """Read every partition, from the disk where it must be; then what was read so far is counted as it grows."""
        with ExitStack() as counted:
            counted_bytes = 0
            for number, read in enumerate(query.reads):
                try:
                    self._read(read, answer)
                except ColdRead:
                    for later in query.reads[number + 1 : number + 1 + _OPENED_AHEAD]:
                        # Those that are not open either are opened meanwhile.
                        self._partitions.opening(later.topic, later.partition)
                    if answer.size > counted_bytes:
                        counted.enter_context(self._answers.held(answer.size - counted_bytes))
                        counted_bytes = answer.size
                    if self._answers.is_full:
                        answer.end_here()
                    await self._read_cold(read, answer)

    def _read(self, read: PartitionRead, answer: _Answer) -> None:
        step = self._begin(read, answer, self._partitions.leader_now)
        if step is None:
            return
        try:
            data = step.place.log.read_batches(read[2], max_bytes=step.bytes_max, upper=step.upper, nowait=True)
        except (GoQueueError, OSError) as error:
            answer.fail(read, _as_told(step.place, error))
        else:
            answer.take(step, data)

    async def _read_cold(self, read: PartitionRead, answer: _Answer) -> None:
        opening = self._partitions.opening(read.topic, read.partition)
        if opening is not None:
            try:
                await opening
            except GoQueueError as error:
                answer.fail(read, error)
                return
        step = self._begin(read, answer, self._partitions.leader)
        if step is None:
            return
        try:
            data = await self._offload(
                partial(step.place.log.read_batches, read.offset, max_bytes=step.bytes_max, upper=step.upper)
            )
        except (GoQueueError, OSError) as error:
            answer.fail(read, _as_told(step.place, error))
        else:
            answer.take(step, data)

    def _begin(self, read: PartitionRead, answer: _Answer, leader: Callable[[str, int], Partition]) -> _Step | None:
        """What to read of this partition; None when its part of the answer is already clear."""
        topic, partition, offset, _, leader_epoch = read
        try:
            place = leader(topic, partition)
            if leader_epoch >= 0 and leader_epoch != place.leader_epoch:
                raise epoch_refusal(leader_epoch, place.leader_epoch)
            log = place.log
            end = log.end_offset
            if not log.start_offset <= offset <= end:
                raise OffsetOutOfRange(offset, log.start_offset, end)
        except GoQueueError as error:
            answer.fail(read, error)
            return None
        return answer.begin(read, place)


def _as_told(place: Partition, error: GoQueueError | OSError) -> GoQueueError | OSError:
    """What the reader is told: damage that other replicas do not have is a matter of who leads.

    A healthy replica takes over within a second. Kafka's own client ends with an error on a corrupt message, and looks
    for the new leader on this one. It may have taken over while this node read.
    """
    if isinstance(error, CorruptFrame) and (place.unreadable.waits_for_repair or not place.is_led_here):
        return NotLeader(f"{place.key} is damaged on this node, and another replica takes over: {error}")
    return error


class _Step(NamedTuple):
    """A read that is worth making."""

    read: PartitionRead
    place: Partition
    upper: int
    bytes_max: int


class _Answer:
    """An answer as it grows, and the rules for its size."""

    __slots__ = (
        "_committed",
        "_failed",
        "_is_counted",
        "_limit",
        "_min_bytes",
        "_partitions",
        "_seen",
        "_size",
        "taken",
    )

    def __init__(self, query: FetchQuery, bytes_max: int) -> None:
        self._partitions: list[FetchedPartition] = []
        self._committed = query.isolation == Isolation.READ_COMMITTED
        self._limit = min(query.max_bytes, bytes_max)
        self._min_bytes = query.min_bytes if query.reads else 0
        self._is_counted = query.is_counted
        self._size = 0
        self._failed = False
        # Which partitions are behind the answer, and how far they could be read at that moment.
        self._seen: list[tuple[Partition, int]] = []
        # Partition, bytes, messages, first offset.
        self.taken: list[tuple[Partition, int, int, int]] = []

    @property
    def size(self) -> int:
        """Bytes of batches in it."""
        return self._size

    def given(self) -> list[FetchedPartition]:
        """The answer, counted: what was read for an answer that is not given went to nobody."""
        for place, size, messages, _ in self.taken if self._is_counted else ():
            traffic = place.traffic
            traffic.bytes_out += size
            traffic.messages_out += messages
        return self._partitions

    def begin(self, read: PartitionRead, place: Partition) -> _Step | None:
        """How much of the partition may be read; an empty part is added when that is nothing."""
        log = place.log
        upper = log.last_stable_offset if self._committed else log.high_watermark
        self._seen.append((place, upper))
        bytes_max = min(read[3], self._limit - self._size)
        # Kafka's rule: the first batch of an answer comes whatever its size, or a reader with
        # a small limit could never get past it.
        if read[2] < upper and (bytes_max > 0 or self._size == 0):
            return _Step(read, place, upper, bytes_max)
        self._add(read, log, (), ())
        return None

    def take(self, step: _Step, data: Read) -> None:
        """Add what was read."""
        read, place, _, bytes_max = step
        if data.bytes > bytes_max and self._size > 0:
            # A whole batch that no longer fits; it opens the next answer.
            if data.bytes > self._limit - self._size:
                # This one is full: each partition behind it would be read for a batch that does not fit either.
                self._limit = self._size
            self._add(read, place.log, (), ())
            return
        self._size += data.bytes
        self.taken.append((place, data.bytes, data.next_offset - read[2], read[2]))
        aborted: Sequence[AbortedTransaction] = ()
        if self._committed and data.batches:
            aborted = place.log.aborted_between(read.offset, data.next_offset)
        self._add(read, place.log, aborted, data.batches)

    def fail(self, read: PartitionRead, error: GoQueueError | OSError) -> None:
        """Add an error in the partition's place."""
        self._failed = True
        value = error if isinstance(error, GoQueueError) else StorageError(f"{read.topic}-{read.partition}: {error}")
        self._partitions.append(FetchedPartition(read.topic, read.partition, value, -1, -1, -1, (), ()))

    def is_enough(self) -> bool:
        """Whether there is a reason to answer before the time is up."""
        return self._failed or self._size >= self._min_bytes or self._size >= self._limit

    def end_here(self) -> None:
        """Take no more than there is, except for the first batch."""
        self._limit = self._size

    def missing_bytes(self) -> int:
        """How much more it takes to answer."""
        return min(self._min_bytes, self._limit) - self._size

    def is_current(self) -> bool:
        """Whether no partition has more to show than when it was read."""
        return all(upper == self._upper(place) for place, upper in self._seen)

    def places(self) -> list[Waiters]:
        """Where to wait for more."""
        return [place.waiters for place, _ in self._seen]

    def _upper(self, place: Partition) -> int:
        return place.log.last_stable_offset if self._committed else place.log.high_watermark

    def _add(
        self,
        read: PartitionRead,
        log: PartitionLog,
        aborted: Sequence[AbortedTransaction],
        batches: Sequence[memoryview],
    ) -> None:
        self._partitions.append(
            FetchedPartition(
                read[0],
                read[1],
                None,
                log.high_watermark,
                log.last_stable_offset,
                log.start_offset,
                aborted,
                batches,
            )
        )


def epoch_refusal(asked: int, current: int) -> GoQueueError:
    """Which of the two does not know the present leader."""
    if asked < current:
        return FencedLeaderEpoch(f"leader epoch {asked} is older than {current}")
    return UnknownLeaderEpoch(f"leader epoch {asked} is newer than {current}")
