"""From options to work: which offsets are read, and how they are cut into tasks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from goqueue.pipeline.decoding.columns import Bounds
from goqueue.pipeline.errors import BadOption, DataLost
from goqueue.pipeline.source.catalogue import Catalogue, Offsets
from goqueue.pipeline.source.options import EARLIEST, LATEST, SourceOptions
from goqueue.pipeline.source.segments import DataDirectory, Segment
from goqueue.records import TopicPartition

# A task has a cost of its own, about what it takes to read this many records.
_TASK_RECORDS_MIN = 10_000
# Of more, tasks are as many as the cores or a multiple of that: a task that fails is done again, and progress is seen.
_TASK_RECORDS_MAX = 1_000_000


class Range(NamedTuple):
    """Offsets of one partition, from `start` to before `end`."""

    place: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return max(0, self.end - self.start)


@dataclass
class Piece:
    """Offsets of one partition, and the files that hold them if they are read from files."""

    place: TopicPartition
    bounds: Bounds
    segments: tuple[Segment, ...] = ()
    # Of the topic that the offsets belong to, where it is known.
    topic_id: str | None = None


@dataclass
class Task(InputPartition):
    """What one Spark task reads, one after the other."""

    pieces: tuple[Piece, ...]


def start_offsets(options: SourceOptions, catalogue: Catalogue, places: list[TopicPartition], default: int) -> Offsets:
    """Where reading begins, as offsets: words and times are looked up now, and never again."""
    if options.starting_ms is not None:
        found = _by_time("starting", options.starting_ms, catalogue, places)
        late = [place for place, offset in found.items() if offset < 0]
        if late and options.late_start_is_error:
            raise BadOption("startingTimestamp", f"{late[0]} has no record as young as that")
        return found | dict(catalogue.latest(late).items())
    return _resolve("startingOffsets", default if options.starting is None else options.starting, catalogue, places)


def end_offsets(options: SourceOptions, catalogue: Catalogue, places: list[TopicPartition], latest: Offsets) -> Offsets:
    """Where a batch ends; `latest` is what counts as the end of the log."""
    if options.ending == LATEST and options.ending_ms is None:
        return dict(latest)
    if options.ending_ms is not None:
        found = _by_time("ending", options.ending_ms, catalogue, places)
        return {place: offset if offset >= 0 else latest[place] for place, offset in found.items()}
    wanted = _resolve("endingOffsets", options.ending, catalogue, places)
    for place, offset in wanted.items():
        if offset > latest[place]:
            raise BadOption("endingOffsets", f"{place} ends at {latest[place]}, so it cannot be read to {offset}")
    return wanted


def checked_start(options: SourceOptions, starts: Offsets, earliest: Offsets, latest: Offsets) -> Offsets:
    """The starts where data is; offsets that are gone are an error, or passed over."""
    kept = {}
    for place, start in starts.items():
        low, high = earliest[place], max(latest[place], earliest[place])
        if options.fail_on_data_loss and start < low:
            raise DataLost(str(place), start, low)
        if options.fail_on_data_loss and start > high:
            raise DataLost(str(place), high, start)
        kept[place] = min(max(start, low), high)
    return kept


def tasks_for(
    options: SourceOptions, ranges: Iterable[Range], times: Bounds, topic_ids: Mapping[str, str] = MappingProxyType({})
) -> list[Task]:
    """What every Spark task reads, by network or from files."""
    wanted = [one for one in ranges if one.size]
    shares = split(options, wanted)
    if not _uses_files(options):
        return [Task(tuple(_piece(one, times, topic_ids) for one in share)) for share in shares]
    directory = DataDirectory(options.path or "")
    segments = {one.place: directory.segments(one.place) for one in wanted}
    tasks = []
    for share in shares:
        pieces = []
        for one in share:
            inside = [
                segment
                for segment in segments[one.place]
                if segment.base_offset < one.end and (segment.next_offset is None or segment.next_offset > one.start)
            ]
            if inside:
                begun = one._replace(start=max(one.start, inside[0].base_offset))
                pieces.append(_piece(begun, times, topic_ids, tuple(inside)))
        if pieces:
            tasks.append(Task(tuple(pieces)))
    _check_covered(options, wanted, [piece for task in tasks for piece in task.pieces])
    return tasks


def split(options: SourceOptions, ranges: list[Range]) -> list[list[Range]]:
    """The shares of the tasks. Who says how to cut gets tasks of one partition each, at least `minPartitions`."""
    total = sum(one.size for one in ranges)
    if not total:
        return []
    if options.max_records is not None:
        each = min(options.max_records, -(-total // (options.min_partitions or 1)))
        return [[piece] for one in ranges for piece in _cut(one, -(-one.size // each))]
    if options.min_partitions is not None:
        each = -(-total // options.min_partitions)
        return [[piece] for one in ranges for piece in _cut(one, max(1, round(one.size / each)))]
    cores = os.cpu_count() or 1
    most = cores * -(-total // (cores * _TASK_RECORDS_MAX))
    return _deal(ranges, -(-total // min(most, -(-total // _TASK_RECORDS_MIN))))


def _cut(one: Range, count: int) -> list[Range]:
    edges = [one.start + one.size * number // count for number in range(count + 1)]
    return [one._replace(start=low, end=high) for low, high in itertools.pairwise(edges) if low < high]


def _deal(ranges: list[Range], each: int) -> list[list[Range]]:
    """Shares of one size, over the borders of partitions: while the last long task runs the other cores wait."""
    shares: list[list[Range]] = []
    room = 0
    for one in ranges:
        start = one.start
        while start < one.end:
            if not room:
                shares.append([])
                room = each
            end = min(one.end, start + room)
            shares[-1].append(one._replace(start=start, end=end))
            room -= end - start
            start = end
    return shares


def _uses_files(options: SourceOptions) -> bool:
    """Files where there are some; `auto` asks the broker if this machine does not see the directory."""
    if options.path is None or options.transport == "fetch":
        return False
    return options.servers is None or options.transport == "files" or Path(options.path).is_dir()


def _piece(one: Range, times: Bounds, ids: Mapping[str, str], segments: tuple[Segment, ...] = ()) -> Piece:
    return Piece(one.place, times._replace(start=one.start, end=one.end), segments, ids.get(one.place.topic))


def _check_covered(options: SourceOptions, wanted: list[Range], pieces: list[Piece]) -> None:
    """Files may go while we look: what no file covers is lost."""
    for one in wanted:
        first = min((piece.bounds.start for piece in pieces if piece.place == one.place), default=one.end)
        if first > one.start and options.fail_on_data_loss:
            raise DataLost(str(one.place), one.start, first)


def _resolve(
    name: str, position: int | Mapping[TopicPartition, int], catalogue: Catalogue, places: list[TopicPartition]
) -> Offsets:
    if isinstance(position, int):
        return catalogue.earliest(places) if position == EARLIEST else catalogue.latest(places)
    _same_partitions(name, position, places)
    found = dict(position)
    for word, ask in ((EARLIEST, catalogue.earliest), (LATEST, catalogue.latest)):
        asked = [place for place, offset in position.items() if offset == word]
        if asked:
            found.update(ask(asked))
    return found


def _by_time(
    which: str, times: int | Mapping[TopicPartition, int], catalogue: Catalogue, places: list[TopicPartition]
) -> Offsets:
    if isinstance(times, int):
        return catalogue.at_times(dict.fromkeys(places, times))
    _same_partitions(f"{which}OffsetsByTimestamp", times, places)
    return catalogue.at_times(times)


def _same_partitions(name: str, given: Mapping[TopicPartition, int], places: list[TopicPartition]) -> None:
    if set(given) != set(places):
        missing = sorted(map(str, set(places) - set(given)))
        extra = sorted(map(str, set(given) - set(places)))
        raise BadOption(name, f"must name every partition that is read: missing {missing}, not read {extra}")
