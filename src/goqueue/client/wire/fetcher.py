"""Raw batches of one partition, from an offset up to a bound, read ahead by a thread.

The next request is sent as soon as its offset is known, so that broker and network work
while the caller opens what came before.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import Full, Queue
from typing import Any, NamedTuple

from goqueue.client.wire.cluster import WireClient
from goqueue.client.wire.connection import AnswerBuffer, WireConnection
from goqueue.client.wire.errors import OFFSET_OUT_OF_RANGE, STALE_METADATA, BrokerRefused
from goqueue.client.wire.offsets import EARLIEST, list_offsets
from goqueue.codec.batch import HEADER_BYTES, parse_batch_header, sound_batches, verify_batch
from goqueue.errors import CorruptBatch, DamagedFetch, OffsetOutOfRange, UnsupportedFormat
from goqueue.records import Isolation, TopicPartition

FETCH = 1
_WAIT_MS = 500
_ANSWERS_AHEAD = 2
# How long a log may end below the bound before the rest counts as lost, unless the caller says otherwise.
_STALL_S = 120.0


class Fetched(NamedTuple):
    """Whole batches back to back, and the aborted transactions (producer id, first offset) among them.

    The first batch may begin below `first_offset`, with records that were read before or deleted.
    All of it is to be done with before the next is asked for: the memory is used again.
    """

    data: memoryview
    # Where each batch begins; each was found sound.
    starts: list[int]
    aborted: tuple[tuple[int, int], ...]
    first_offset: int


class Gone(NamedTuple):
    """Offsets that the log no longer has: retention took them, or the log ends before them."""

    first_offset: int
    end_offset: int


def fetch_range(
    client: WireClient,
    place: TopicPartition,
    start: int,
    end: int,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    answer_bytes: int = 16 * 1024 * 1024,
    on_gone: Callable[[Gone], None] | None = None,
    stall_s: float = _STALL_S,
) -> Iterator[Fetched]:
    """Everything in [start, end); batches at both edges may reach beyond it.

    Offsets that are gone raise OffsetOutOfRange, unless `on_gone` takes note of them. A log that ends below `end`
    (it was shortened since the bound was planned) is waited for at most `stall_s`; the rest counts as gone then.
    """
    if start >= end:
        return
    reader = _Reader(client, place, start, end, isolation, answer_bytes, on_gone, stall_s)
    thread = threading.Thread(target=reader.run, name=f"fetch-{place}", daemon=True)
    thread.start()
    try:
        while True:
            item = reader.answers.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        reader.stop()
        thread.join()


class _Reader:
    """The thread's side: asks, cuts what is incomplete, and hands over."""

    def __init__(
        self,
        client: WireClient,
        place: TopicPartition,
        start: int,
        end: int,
        isolation: Isolation,
        answer_bytes: int,
        on_gone: Callable[[Gone], None] | None,
        stall_s: float,
    ) -> None:
        self.answers: Queue[Fetched | BaseException | None] = Queue(_ANSWERS_AHEAD)
        self._client = client
        self._place = place
        self._next = start
        self._end = end
        self._isolation = isolation
        self._answer_bytes = answer_bytes
        self._on_gone = on_gone
        self._stall_s = stall_s
        self._stalled_since: float | None = None
        self._stopped = threading.Event()
        self._connection: WireConnection | None = None
        # One is being filled, one is with the caller, and the others wait.
        self._buffers = itertools.cycle([AnswerBuffer() for _ in range(_ANSWERS_AHEAD + 2)])
        self._buffer = next(self._buffers)

    def run(self) -> None:
        try:
            while self._next < self._end and not self._stopped.is_set():
                fetched = self._client.repeat(self._fetch)
                if fetched is not None:
                    self._hand_over(fetched)
                    self._buffer = next(self._buffers)
            # Nothing is owed on it, so that whoever reads next may have it.
            self._connection = None
            self._hand_over(None)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the answers are read
            self._hand_over(error)

    def stop(self) -> None:
        self._stopped.set()
        if self._connection is not None:
            self._connection.close()

    def _hand_over(self, item: Fetched | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self.answers.put(item, timeout=0.2)
            except Full:
                continue
            return

    def _fetch(self) -> Fetched | None:
        if self._stopped.is_set():
            return None
        self._connection = self._client.leader(self._place)
        part = {
            "partition": self._place.partition,
            "fetch_offset": self._next,
            "partition_max_bytes": self._answer_bytes,
        }
        answer = self._connection.call(
            FETCH,
            12,
            {
                "max_wait": _WAIT_MS,
                "min_bytes": 1,
                "max_bytes": self._answer_bytes,
                "isolation_level": int(self._isolation),
                "topics": [{"topic": self._place.topic, "partitions": [part]}],
            },
            self._buffer,
        )
        if answer.error_code:
            raise BrokerRefused(f"reading {self._place}", answer.error_code)
        row = answer.responses[0].partitions[0]
        if row.error_code == OFFSET_OUT_OF_RANGE:
            self._pass_over()
            return None
        if row.error_code:
            if row.error_code in STALE_METADATA:
                self._client.forget([self._place.topic])
            raise BrokerRefused(f"reading {self._place} at offset {self._next}", row.error_code)
        visible = row.last_stable_offset if self._isolation is Isolation.READ_COMMITTED else row.high_watermark
        return self._cut(row.records, row.aborted_transactions or (), visible)

    def _cut(self, records: memoryview | None, aborted: Iterable[Any], visible: int) -> Fetched:
        data = memoryview(b"") if records is None else records
        first = self._next
        try:
            starts, position, behind = sound_batches(data, self._end)
        except CorruptBatch as error:
            offset = _sound_until(data, first)
            raise DamagedFetch(self._place.topic, self._place.partition, offset, str(error)) from error
        upper = self._next if behind is None else behind
        if upper > self._next:
            self._next, self._stalled_since = upper, None
        elif visible >= self._end:
            # Everything up to the bound may be seen, and there is nothing: compaction took the last of it.
            self._next = self._end
        else:
            self._stalled(visible)
        return Fetched(data[:position], starts, tuple((one.producer_id, one.first_offset) for one in aborted), first)

    def _stalled(self, visible: int) -> None:
        """The log ends below the bound: a new leader may still catch up, a shortened log never does."""
        now = time.monotonic()
        if self._stalled_since is None:
            self._stalled_since = now
        if now - self._stalled_since >= self._stall_s:
            self._gone(self._end, OffsetOutOfRange(self._next, min(self._next, visible), visible))

    def _pass_over(self) -> None:
        earliest = list_offsets(self._client, {self._place: EARLIEST})[self._place]
        if earliest > self._next:
            self._gone(min(earliest, self._end), OffsetOutOfRange(self._next, earliest, self._end))
        else:
            # The log ends before this offset: it was deleted and made anew, or lost its end in a crash.
            self._gone(self._end, OffsetOutOfRange(self._next, earliest, self._next))

    def _gone(self, upper: int, error: OffsetOutOfRange) -> None:
        if self._on_gone is None:
            raise error
        self._on_gone(Gone(self._next, upper))
        self._next, self._stalled_since = upper, None


def _sound_until(data: memoryview, offset: int) -> int:
    """The offset behind the sound batches at the beginning of `data`; `offset` if there is none."""
    position = 0
    while len(data) - position >= HEADER_BYTES:
        end = position + 12 + parse_batch_header(data, position).length
        try:
            header = verify_batch(data[position:end])
        except (CorruptBatch, UnsupportedFormat):
            break
        offset, position = header.last_offset + 1, end
    return offset
