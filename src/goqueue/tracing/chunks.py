"""Chunks: what a flush stores of one partition, and back.

A chunk has the names that occur in it, and runs: events of one kind with the same attributes. Of each event of a run
there are three small integers, how far its first offset lies behind the last one's, how many more offsets it has, and
its milliseconds behind the chunk's first event. Where load is high that is three bytes an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec

from goqueue.tracing.events import FIRST_NUMBER, At, Attributes, Happened, Kind, Noted, Subject

# The smallest range that the index tells apart is 2^4 offsets, and 2^10 where a chunk has many.
_LEVEL_MIN = 4
_ROWS_MAX = 64
_GAP = 1 << _LEVEL_MIN


class Run(msgspec.Struct, array_like=True):
    """Events of one kind that say the same."""

    kind: int
    # Attribute, value; a text is the number of its name in the chunk.
    attributes: list[int]
    pieces: list[int]


class Chunk(msgspec.Struct, array_like=True, tag=1):
    """Events of one partition."""

    topic_id: bytes
    partition: int
    base_ms: int
    names: list[str]
    runs: list[Run]

    @property
    def subject(self) -> Subject:
        """Whose events they are."""
        return Subject(UUID(bytes=self.topic_id), self.partition)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Chunk)


def encode_chunks(noted: Iterable[Noted]) -> list[tuple[Subject, bytes, list[tuple[int, int]], list[str]]]:
    """One chunk for each partition: whose it is, its bytes, its rows in the index, and the trace ids in it."""
    by_subject: dict[tuple[UUID, int], list[Noted]] = {}
    for one in noted:
        key = (one[1], one[2])
        found = by_subject.get(key)
        if found is None:
            by_subject[key] = [one]
        else:
            found.append(one)
    return [_encoded(Subject(*key), events) for key, events in by_subject.items()]


def _encoded(subject: Subject, events: Sequence[Noted]) -> tuple[Subject, bytes, list[tuple[int, int]], list[str]]:
    base_ms = min([one[5] for one in events])
    names: dict[str, int] = {}
    traces: list[str] = []
    runs: dict[tuple[int, Attributes], list[int]] = {}
    # Of each run: where its last event began, ended, and when; and whether its events stand for themselves.
    ends: dict[tuple[int, Attributes], tuple[int, int, int, bool]] = {}
    for kind, _, _, first, last, at_ms, attributes in events:
        key = (int(kind), attributes)
        pieces = runs.get(key)
        late_ms = at_ms - base_ms
        if pieces is None:
            runs[key] = [first, last - first, late_ms]
            # Where a message went is counted from the first of the range.
            ends[key] = first, last, late_ms, At.TO_OFFSET in attributes[::2]
            continue
        before_first, before_last, before_ms, is_single = ends[key]
        if first == before_last + 1 and late_ms == before_ms and not is_single:
            # Neighbours of the same millisecond are one event.
            pieces[-2] = last - before_first
            ends[key] = before_first, last, late_ms, False
        else:
            pieces += (first - before_first, last - first, late_ms)
            ends[key] = first, last, late_ms, is_single
    stored = []
    for (number, attributes), pieces in runs.items():
        flat: list[int] = []
        for at in range(0, len(attributes), 2):
            name, value = attributes[at], attributes[at + 1]
            if isinstance(value, str):
                if name == At.TRACE:
                    traces.append(value)
                value = names.setdefault(value, len(names))
            flat += (int(name), value)
        stored.append(Run(int(number), flat, pieces))
    chunk = Chunk(subject.topic_id.bytes, subject.partition, base_ms, list(names), stored)
    return subject, _encoder.encode(chunk), _rows([(one[3], one[4]) for one in events]), traces


def decode_chunk(data: bytes) -> Chunk:
    """A chunk from the log."""
    return _decoder.decode(data)


def traces_of(chunk: Chunk) -> list[str]:
    """The trace ids that its records brought along."""
    return [
        chunk.names[run.attributes[at + 1]]
        for run in chunk.runs
        for at in range(0, len(run.attributes), 2)
        if run.attributes[at] == At.TRACE
    ]


def events_at(chunk: Chunk, offset: int) -> Iterator[Happened]:
    """What the chunk says of one message."""
    for run in chunk.runs:
        for first, last, at_ms in _pieces(chunk, run):
            if first <= offset <= last:
                yield Happened(at_ms, Kind(run.kind), first, last, _attributes(chunk, run))


def events_of(chunk: Chunk) -> Iterator[Happened]:
    """All that it says, run by run."""
    for run in chunk.runs:
        attributes = _attributes(chunk, run)
        for first, last, at_ms in _pieces(chunk, run):
            yield Happened(at_ms, Kind(run.kind), first, last, attributes)


def rows_of(chunk: Chunk) -> list[tuple[int, int]]:
    """Where the index finds the chunk: (level, bucket), a bucket of level n being 2^n offsets."""
    return _rows([(first, last) for run in chunk.runs for first, last, _ in _pieces(chunk, run)])


def _rows(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The rows of some ranges.

    Events that lie beside each other are one range, and a range lies in at most two buckets of the level that is as
    large as it. Chunks with many scattered events have larger buckets, so that none has more than some 64 rows.
    """
    joined = _joined(sorted(ranges))
    level_min = _LEVEL_MIN
    while True:
        rows: set[tuple[int, int]] = set()
        for first, last in joined:
            level = max(level_min, (last - first).bit_length())
            rows.add((level, first >> level))
            rows.add((level, last >> level))
        if len(rows) <= _ROWS_MAX:
            return sorted(rows)
        level_min += 2


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rising ranges, those that overlap or nearly touch as one."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and first <= joined[-1][1] + _GAP:
            if last > joined[-1][1]:
                joined[-1] = joined[-1][0], last
        else:
            joined.append((first, last))
    return joined


def _pieces(chunk: Chunk, run: Run) -> Iterator[tuple[int, int, int]]:
    first = 0
    pieces, base_ms = run.pieces, chunk.base_ms
    for at in range(0, len(pieces), 3):
        first += pieces[at]
        yield first, first + pieces[at + 1], base_ms + pieces[at + 2]


def _attributes(chunk: Chunk, run: Run) -> Attributes:
    found: list[int | str] = []
    for at in range(0, len(run.attributes), 2):
        name, value = run.attributes[at], run.attributes[at + 1]
        found += (name, chunk.names[value] if name < FIRST_NUMBER else value)
    return tuple(found)
