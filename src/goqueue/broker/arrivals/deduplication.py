"""Deduplication ids: a message sent twice to a partition within its topic's window is stored once.

A window belongs to a partition. The id chooses the partition of a record without a key, so that a repeat meets the
first one there. The same id under two keys may go to two partitions, and is stored in both.

The id is a header of the record itself, so it is written with the message and lost with it:
no crash can leave one without the other. What is kept in memory is only an index of the
last window, made again from the log when the node starts. Records of transactions are left
alone: one that is aborted must not keep its next attempt out. Those without sequences are the
broker's own copies: their ids name a sequence of a producer, which no other transaction has.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from goqueue.broker.replicas.opening import Awaited
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES, parse_frame_header
from goqueue.errors import CoordinatorUnavailable, CorruptFrame, GoQueueError, InvalidRequest, TooBusy
from goqueue.metadata.events import Delta, TopicDeleted
from goqueue.records import Header, NewRecord

if TYPE_CHECKING:
    from goqueue.broker.arrivals.arrival import Arrival, Facts
    from goqueue.broker.replicas.partitions import Partition, Partitions
    from goqueue.log.partition_log import PartitionLog
    from goqueue.metadata.image import Image
    from goqueue.ports import Offload

DEDUPLICATION_HEADER = "goqueue-dedup-id"

_READ_BYTES = 4 * 1024 * 1024
_NS_PER_MS = 1_000_000


class Remembered(NamedTuple):
    """Where the first message with an id lies, and when it was taken."""

    partition: int
    offset: int
    timestamp_ms: int
    taken_ms: int


class Sifted(NamedTuple):
    """Records on their way in, by position: to be stored, repeats of stored ones, repeats of one before them here."""

    fresh: list[int]
    repeats: dict[int, Remembered]
    twins: dict[int, int]


class Window:
    """The ids of one partition's last while, oldest first."""

    __slots__ = ("_ids", "_ids_max")

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        # Ids may be long; their digests are all alike, and too many to meet by chance.
        self._ids: dict[bytes, Remembered] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, digest: bytes, since_ms: int) -> Remembered | None:
        """The first message with this id, if it was taken at or after `since_ms`."""
        found = self._ids.get(digest)
        return found if found is not None and found.taken_ms >= since_ms else None

    def add(self, digest: bytes, place: Remembered) -> None:
        """Remember an id. One that comes again after its window counts from now."""
        self._ids.pop(digest, None)
        self._ids[digest] = place

    def drop_before(self, since_ms: int) -> None:
        """Forget what was taken before."""
        ids = self._ids
        while ids:
            first = next(iter(ids))
            if ids[first].taken_ms >= since_ms:
                return
            del ids[first]

    def check_room(self, more: int) -> None:
        """Refuse rather than forget an id whose window has not ended."""
        if len(self._ids) + more > self._ids_max:
            raise TooBusy(f"{len(self._ids)} deduplication ids are within the partition's window, and more do not fit")


class Deduplication:
    """The windows of all partitions that have one."""

    def __init__(self, offload: Offload, *, ids_max: int) -> None:
        self._offload = offload
        self._ids_max = ids_max
        # Windows that are being read, for those who wait.
        self._reading: dict[tuple[UUID, int], Awaited] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # By topic and partition, with the leader epoch in which the window was read.
        self._windows: dict[tuple[UUID, int], tuple[int, Window]] = {}

    async def load(self, image: Image, partitions: Partitions, now_ms: int) -> None:
        """Read the ids of each topic's last window out of its log; called before anything is published."""
        for topic in image.topics():
            window_ms = partitions.config(topic).dedup_window_ms
            if not window_ms:
                continue
            for number in partitions.led_with_data(topic.name):
                place = await partitions.open_leader(topic.name, number)
                found = await self._offload(partial(read_ids, place.log, place.id, now_ms - window_ms))
                self._put(place, found)

    def preparing(self, place: Partition, now_ms: int) -> Awaited | None:
        """What writes to the partition wait for: in a new term, ids that another node took are read from the log."""
        window_ms = place.config.dedup_window_ms
        if not window_ms:
            return None
        key = (place.topic_id, place.id)
        if (awaited := self._reading.get(key)) is not None:
            # Also when whoever could not wait has read it meanwhile: nobody overtakes those that wait.
            return awaited
        known = self._windows.get(key)
        if (known is not None and known[0] == place.leader_epoch) or place.log.start_offset == place.log.end_offset:
            return None
        awaited = self._reading[key] = Awaited()
        task = asyncio.get_running_loop().create_task(self._read(place, now_ms - window_ms, awaited))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return awaited

    async def _read(self, place: Partition, since_ms: int, awaited: Awaited) -> None:
        epoch, error = place.leader_epoch, None
        try:
            found = await self._offload(partial(read_ids, place.log, place.id, since_ms))
            known = self._windows.get((place.topic_id, place.id))
            # Whoever could not wait has read it meanwhile, and knows of what was written since.
            if place.leader_epoch == epoch and (known is None or known[0] != epoch):
                self._put(place, found)
        except GoQueueError as refusal:
            error = refusal
        except (OSError, asyncio.CancelledError) as failure:
            error = CoordinatorUnavailable(f"the deduplication ids of {place.key} could not be read: {failure!r}")
        finally:
            del self._reading[place.topic_id, place.id]
            awaited.finish(error)

    def sift(self, place: Partition, records: Sequence[NewRecord], taken: Sequence[int], now_ms: int) -> Sifted:
        """Tell repeats from what is new. Nothing is remembered yet: the records are not stored."""
        since_ms = now_ms - place.config.dedup_window_ms
        window = self._window(place, since_ms)
        window.drop_before(since_ms)
        sifted = Sifted([], {}, {})
        firsts: dict[bytes, int] = {}
        for position in taken:
            digest = digest_of(records[position].headers)
            if digest is None:
                sifted.fresh.append(position)
            elif (found := window.find(digest, since_ms)) is not None:
                sifted.repeats[position] = found
            elif (first := firsts.setdefault(digest, position)) != position:
                sifted.twins[position] = first
            else:
                sifted.fresh.append(position)
        window.check_room(len(firsts))
        return sifted

    def remember(self, place: Partition, headers: Sequence[Header], remembered: Remembered) -> None:
        """A record is stored: its id, if it has one, counts from now."""
        digest = digest_of(headers)
        if digest is not None:
            self._window(place, remembered.taken_ms).add(digest, remembered)

    def on_delta(self, delta: Delta) -> None:
        """Forget the ids of topics that are gone."""
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                for key in [one for one in self._windows if one[0] == event.topic_id]:
                    del self._windows[key]

    def _window(self, place: Partition, since_ms: int) -> Window:
        known = self._windows.get((place.topic_id, place.id))
        if known is None or known[0] != place.leader_epoch:
            # A term has begun since, and whoever writes has not waited (`preparing`).
            return self._put(place, read_ids(place.log, place.id, since_ms))
        return known[1]

    def _put(self, place: Partition, ids: Sequence[tuple[bytes, Remembered]]) -> Window:
        window = Window(self._ids_max)
        for digest, remembered in ids:
            window.add(digest, remembered)
        self._windows[place.topic_id, place.id] = (place.leader_epoch, window)
        return window


class RemoveRepeats:
    """A step: a closed batch goes on without the records that are repeats.

    Its offsets and sequences stay, as after compaction: its producer counts on them.
    """

    def __init__(self, deduplication: Deduplication) -> None:
        self._deduplication = deduplication

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To topics with a window."""
        return partition.config.dedup_window_ms > 0

    def preparing(self, partition: Partition, now_ms: int) -> Awaited | None:
        """Wait for the ids of the partition's window."""
        return self._deduplication.preparing(partition, now_ms)

    def __call__(self, arrival: Arrival) -> None:
        """Remove repeats, and remember what is left once it is stored."""
        if arrival.facts.has_no_repeats or _is_left_alone(arrival.header):
            return
        records = arrival.records()
        if not any(record.headers for record in records):
            return
        new = [NewRecord(one.key, one.value, one.headers) for one in records]
        sifted = self._deduplication.sift(arrival.partition, new, range(len(new)), arrival.now_ms)
        if len(sifted.fresh) < len(records):
            arrival.thin([records[at] for at in sifted.fresh])
        arrival.after(self._remember)

    def _remember(self, arrival: Arrival) -> None:
        place, appended = arrival.partition, arrival.appended
        if appended is None:
            return
        shift = appended.base_offset - arrival.header.base_offset
        for one in arrival.records():
            if one.headers:
                remembered = Remembered(place.id, one.offset + shift, one.timestamp_ms, arrival.now_ms)
                self._deduplication.remember(place, one.headers, remembered)


def _is_left_alone(header: BatchHeader) -> bool:
    return header.is_transactional and header.base_sequence >= 0


def digest_of(headers: Iterable[Header]) -> bytes | None:
    """The digest of a record's deduplication id; None if it has none."""
    for name, value in headers:
        if name == DEDUPLICATION_HEADER and value:
            return hashlib.blake2b(value, digest_size=16).digest()
    return None


def read_ids(log: PartitionLog, partition: int, since_ms: int) -> list[tuple[bytes, Remembered]]:
    """The ids that a partition took since then, oldest first."""
    found: list[tuple[bytes, Remembered]] = []
    offset = _first_since(log, since_ms)
    while offset < log.end_offset:
        try:
            read = log.read_frames(offset, max_bytes=_READ_BYTES, upper=log.end_offset)
        except CorruptFrame as damage:
            # Readers are told of it; only the ids in the damaged frame are what a repeat may slip past.
            if damage.next_offset is None or damage.next_offset <= offset:
                return found
            offset = damage.next_offset
            continue
        if not read.batches:
            break
        for frame in read.batches:
            found += _ids_in(frame, partition)
        offset = read.next_offset
    return found


def _first_since(log: PartitionLog, since_ms: int) -> int:
    """The first offset whose frame was taken at or after a time: by bisection, for frames lie in the order taken."""
    low, high = log.start_offset, log.end_offset
    while low < high:
        middle = (low + high) // 2
        try:
            read = log.read_frames(middle, max_bytes=1, upper=log.end_offset)
        except CorruptFrame:
            # Nobody knows when that one was taken: begin before it rather than behind it.
            high = middle
            continue
        if not read.batches:
            high = middle
            continue
        header = parse_frame_header(read.batches[0])
        if header.timestamp_ns >= since_ms * _NS_PER_MS:
            high = min(middle, max(low, header.offset))
        else:
            low = max(middle + 1, read.next_offset)
    return low


def _ids_in(frame: memoryview, partition: int) -> list[tuple[bytes, Remembered]]:
    header = parse_frame_header(frame)
    batch = frame[HEADER_BYTES : HEADER_BYTES + header.value_bytes]
    described = parse_batch_header(batch)
    if described.is_control or _is_left_alone(described) or not described.count:
        return []
    taken_ms = header.timestamp_ns // _NS_PER_MS
    try:
        records = decode_records(batch)
    except InvalidRequest:
        # Its checksums hold, so this is what its producer sent: nobody can read an id in it.
        return []
    return [
        (digest, Remembered(partition, record.offset, record.timestamp_ms, taken_ms))
        for record in records
        if record.headers and (digest := digest_of(record.headers)) is not None
    ]
