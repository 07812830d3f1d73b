"""The store: chunks in the internal topic `__traces`, and the index that finds them.

A flush is one batch. The index takes it in a few seconds later; until then it is looked for in memory. After a crash
the index takes in what the log has and it has not.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.replicas.roles import Leading, Role
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock, Timer
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.config import LogConfig, TracingConfig
from goqueue.ports import Offload
from goqueue.records import NewRecord, TopicPartition
from goqueue.tracing.chunks import Chunk, decode_chunk, encode_chunks, events_at, rows_of, traces_of
from goqueue.tracing.events import Happened, Noted, Subject
from goqueue.tracing.index import Entry, TraceIndex
from goqueue.tracing.recorder import NotReady

TRACES = "__traces"
INDEX_DIRECTORY = "traces/index"
INDEX_MS = 5000
# Chunks that may wait for the index before it takes them in without waiting.
_RECENT_MAX = 5_000
_COMPRESSED_BYTES_MIN = 8192
_BATCH_BYTES_MAX = 4 * 1024 * 1024
_REPLAY_BYTES = 1024 * 1024
_SEGMENTS = 16
_SEGMENT_BYTES_MIN = 1024 * 1024
# A message with more chunks than this is shown with its newest ones.
_CHUNKS_MAX = 10_000

# (what is the matter, why): it is tried again.
OnTrouble = Callable[[str, BaseException], None]


class Store:
    """Writes and finds chunks. Lives on the event loop; the index is asked in the offload."""

    def __init__(
        self,
        topics: TopicService,
        partitions: Partitions,
        *,
        config: TracingConfig,
        log_config: LogConfig,
        index_directory: str | None,
        clock: Clock,
        offload: Offload,
        on_trouble: OnTrouble,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._config = config
        self._log_config = log_config
        self._index_directory = index_directory
        self._clock = clock
        self._offload = offload
        self._on_trouble = on_trouble
        self._place: Partition | None = None
        self._index: TraceIndex | None = None
        self._opening: asyncio.Task[None] | None = None
        # Written, and not in the index yet.
        self._recent: deque[Entry] = deque()
        self._timer: Timer | None = None
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        # In a cluster, set by the node: sends chunks to whoever leads the topic.
        self.elsewhere: Callable[[Sequence[bytes]], None] | None = None
        partitions.on_role(self._on_role)

    # --- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Open what an earlier life left, in the background. A node that never recorded anything has nothing."""
        if self._topics.find(TRACES) is not None:
            self._open_soon()

    async def close(self) -> None:
        """Let the index take in the rest, so that the next start replays nothing."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._index is not None:
            await self._take_in()
            self._index.close()
            self._index = None

    async def opened(self) -> None:
        """Wait until everything of earlier lives can be found."""
        if self._opening is not None:
            await asyncio.shield(self._opening)

    # --- writing ----------------------------------------------------------------------------

    def write(self, events: Sequence[Noted]) -> None:
        """Store events; `NotReady` while the topic is being made or opened."""
        if self.elsewhere is not None and self._is_led_elsewhere():
            self.elsewhere([chunk for _, chunk, _, _ in encode_chunks(events)])
            return
        self._store(encode_chunks(events))

    def take(self, chunks: Sequence[bytes]) -> None:
        """Store chunks of another node; `NotReady` as `write`."""
        found = [(decode_chunk(one), one) for one in chunks]
        self._store([(chunk.subject, raw, rows_of(chunk), traces_of(chunk)) for chunk, raw in found])

    def _is_led_elsewhere(self) -> bool:
        return self._topics.find(TRACES) is not None and not self._partitions.is_led(TRACES, 0)

    def _on_role(self, at: TopicPartition, role: Role | None) -> None:
        """Another node led the topic meanwhile, or will: what the index lacks is read from the log at its opening."""
        if at.topic != TRACES or self._closed:
            return
        index, self._place, self._index = self._index, None, None
        self._recent.clear()
        if index is not None:
            index.close()
        if isinstance(role, Leading):
            self._open_soon()

    def _store(self, chunks: Sequence[tuple[Subject, bytes, list[tuple[int, int]], list[str]]]) -> None:
        place = self._place
        if place is None:
            self._open_soon()
            raise NotReady
        first = 0
        while first < len(chunks):
            size, end = 0, first
            while end < len(chunks) and (end == first or size + len(chunks[end][1]) <= _BATCH_BYTES_MAX):
                size += len(chunks[end][1])
                end += 1
            self._write(place, chunks[first:end], size)
            first = end
        if self._timer is None and not self._closed:
            wait_ms = INDEX_MS if len(self._recent) < _RECENT_MAX else 0
            self._timer = self._clock.call_later(wait_ms, self._index_soon)

    def _write(
        self, place: Partition, chunks: Sequence[tuple[Subject, bytes, list[tuple[int, int]], list[str]]], size: int
    ) -> None:
        now_ms = self._clock.now_ms()
        codec = Codec.ZSTD if size >= _COMPRESSED_BYTES_MIN else Codec.NONE
        batch = encode_batch([NewRecord(None, one[1]) for one in chunks], codec=codec, now_ms=now_ms)
        base = place.writer.append(batch, now_ms=now_ms).base_offset
        self._recent.extend(
            Entry(base + number, subject, rows, traces) for number, (subject, _, rows, traces) in enumerate(chunks)
        )

    # --- finding ------------------------------------------------------------------------------

    async def events(self, subject: Subject, offset: int) -> list[Happened]:
        """What is stored of one message, in the order in which it was written."""
        await self.opened()
        index = self._index
        if index is None:
            return []
        recent = [one.place for one in self._recent if one.has(subject, offset)]
        async with self._lock:
            indexed = await self._ask(partial(index.find, subject, offset))
        places = sorted({*indexed, *recent})[-_CHUNKS_MAX:]
        if not places:
            return []
        return await self._offload(partial(self._read, places, subject, offset))

    async def chunks_of_trace(self, trace_id: str) -> list[Chunk]:
        """Chunks with records that brought this trace id along."""
        await self.opened()
        index = self._index
        if index is None:
            return []
        recent = [one.place for one in self._recent if trace_id in one.traces]
        async with self._lock:
            indexed = await self._ask(partial(index.find_trace, trace_id))
        places = sorted({*indexed, *recent})[-_CHUNKS_MAX:]
        return await self._offload(partial(self._chunks, places)) if places else []

    def index_bytes(self) -> int:
        """What the index takes on the disk."""
        return 0 if self._index is None else self._index.size_bytes()

    @property
    def log_bytes(self) -> int:
        """What the stories take on the disk."""
        return 0 if self._topics.find(TRACES) is None else self._partitions.size_bytes(TRACES, 0)

    async def _ask(self, question: Callable[[], list[int]]) -> list[int]:
        try:
            return await self._offload(question)
        except sqlite3.DatabaseError as damage:
            await self._rebuild(damage)
            return await self._offload(question)

    def _read(self, places: Sequence[int], subject: Subject, offset: int) -> list[Happened]:
        return [
            event for chunk in self._chunks(places) if chunk.subject == subject for event in events_at(chunk, offset)
        ]

    def _chunks(self, places: Sequence[int]) -> list[Chunk]:
        place = self._place
        if place is None:
            return []
        log, wanted = place.log, set(places)
        found: list[Chunk] = []
        end, seen_to = log.end_offset, -1
        for at in places:
            if at < seen_to or not log.start_offset <= at < end:
                continue
            read = log.read_batches(at, max_bytes=1, upper=end)
            for batch in read.batches:
                found += [decode_chunk(one.value or b"") for one in decode_records(batch, only=wanted)]
            seen_to = read.next_offset
        return found

    # --- the index ---------------------------------------------------------------------------

    def _open_soon(self) -> None:
        if self._opening is None or (self._opening.done() and self._place is None):
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        try:
            await self._topics.ensure_internal(TRACES, 1, topic_config(self._config))
            if self.elsewhere is not None and self._is_led_elsewhere():
                return
            place = self._partitions.leader(TRACES, 0)
            # The settings of today, not those with which the topic was made.
            today = replace(
                place.config,
                retention_ms=self._config.retention_ms,
                retention_bytes=self._config.retention_bytes,
                segment_bytes=_segment_bytes(self._config),
            )
            place.reconfigure(today, self._log_config)
            start, end = place.log.start_offset, place.log.end_offset
            directory = self._index_directory
            index = await self._offload(lambda: TraceIndex(directory, place.topic_id, start=start, end=end))
            self._place = place
            await self._offload(lambda: _replay(place, index, end))
            self._index = index
        except Exception as error:  # noqa: BLE001 - stories are tried again with the next flush, and stop nobody
            self._place = None
            self._on_trouble(f"{TRACES} could not be opened", error)

    def _index_soon(self) -> None:
        self._timer = None
        if self._index is None:
            if not self._closed:
                self._timer = self._clock.call_later(INDEX_MS, self._index_soon)
            return
        task = asyncio.get_running_loop().create_task(self._take_in())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_in(self) -> None:
        async with self._lock:
            index, place = self._index, self._place
            if index is None or place is None or not self._recent:
                return
            entries = list(self._recent)
            end = entries[-1].place + 1
            start = place.log.start_offset

            def work() -> None:
                index.add(entries, end)
                index.drop_before(start)

            try:
                await self._offload(work)
            except sqlite3.DatabaseError as damage:
                await self._rebuild(damage)
                return
            for _ in entries:
                self._recent.popleft()

    async def _rebuild(self, damage: sqlite3.DatabaseError) -> None:
        """Make the index anew from the log; what is recent stays recent. Under the lock."""
        self._on_trouble("the index of stories is rebuilt", damage)
        index, place = self._index, self._place
        if index is None or place is None:
            return
        start = place.log.start_offset
        end = self._recent[0].place if self._recent else place.log.end_offset

        def work() -> None:
            index.remake(start)
            _replay(place, index, end)

        await self._offload(work)


def _replay(place: Partition, index: TraceIndex, end: int) -> None:
    """Take in what the log has and the index has not."""
    log = place.log
    at = max(index.end, log.start_offset)
    while at < end:
        read = log.read_batches(at, max_bytes=_REPLAY_BYTES, upper=end)
        if not read.batches:
            break
        entries = [
            Entry(one.offset, chunk.subject, rows_of(chunk), traces_of(chunk))
            for batch in read.batches
            for one in decode_records(batch)
            for chunk in (decode_chunk(one.value or b""),)
            if one.offset >= at
        ]
        index.add(entries, read.next_offset)
        at = read.next_offset


def topic_config(config: TracingConfig) -> dict[str, str]:
    """The settings of `__traces`."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(config.retention_ms),
        "retention.bytes": str(config.retention_bytes),
        "segment.bytes": str(_segment_bytes(config)),
    }


def _segment_bytes(config: TracingConfig) -> int:
    """Small enough that the bound on bytes is kept to within a sixteenth."""
    return max(_SEGMENT_BYTES_MIN, min(config.retention_bytes // _SEGMENTS, 64 * 1024 * 1024))
