"""Deduplication ids: a message sent twice within a topic's window is stored once.

The id is a header of the record itself, so it is written with the message and lost with it:
no crash can leave one without the other. What is kept in memory is only an index of the
last window, made again from the log when the node starts. Records of transactions are left
alone: one that is aborted must not keep its next attempt out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES, parse_frame_header
from goqueue.errors import CorruptFrame, InvalidRequest, TooBusy
from goqueue.metadata.events import Delta, TopicDeleted
from goqueue.records import Header, NewRecord

if TYPE_CHECKING:
    from goqueue.broker.arrival import Arrival, Facts
    from goqueue.broker.partitions import Partition, Partitions
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
    """The ids of one topic's last while, oldest first."""

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
            raise TooBusy(f"{len(self._ids)} deduplication ids are within the topic's window, and more do not fit")


class Deduplication:
    """The windows of all topics that have one."""

    def __init__(self, *, ids_max: int) -> None:
        self._ids_max = ids_max
        self._windows: dict[UUID, Window] = {}

    async def load(self, image: Image, partitions: Partitions, offload: Offload, now_ms: int) -> None:
        """Read the ids of each topic's last window out of its log; called before anything is published."""
        for topic in image.topics():
            window_ms = partitions.config(topic).dedup_window_ms
            if not window_ms:
                continue
            found: list[tuple[bytes, Remembered]] = []
            for number in range(topic.partition_count):
                place = partitions.leader(topic.name, number)
                found += await offload(partial(read_ids, place.log, place.id, now_ms - window_ms))
            window = self._window(topic.topic_id)
            for digest, remembered in sorted(found, key=lambda one: one[1].taken_ms):
                window.add(digest, remembered)

    def sift(self, place: Partition, records: Sequence[NewRecord], taken: Sequence[int], now_ms: int) -> Sifted:
        """Tell repeats from what is new. Nothing is remembered yet: the records are not stored."""
        since_ms = now_ms - place.config.dedup_window_ms
        window = self._window(place.topic_id)
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

    def remember(self, topic_id: UUID, headers: Sequence[Header], place: Remembered) -> None:
        """A record is stored: its id, if it has one, counts from now."""
        digest = digest_of(headers)
        if digest is not None:
            self._window(topic_id).add(digest, place)

    def on_delta(self, delta: Delta) -> None:
        """Forget the ids of topics that are gone."""
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                self._windows.pop(event.topic_id, None)

    def _window(self, topic_id: UUID) -> Window:
        window = self._windows.get(topic_id)
        if window is None:
            window = self._windows[topic_id] = Window(self._ids_max)
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

    def __call__(self, arrival: Arrival) -> None:
        """Remove repeats, and remember what is left once it is stored."""
        if arrival.facts.has_no_repeats or arrival.header.is_transactional:
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
                self._deduplication.remember(place.topic_id, one.headers, remembered)


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
    if described.is_control or described.is_transactional or not described.count:
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
