"""From options to work: which offsets are read, and how they are cut into tasks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from goqueue.pipeline.catalogue import Catalogue, Offsets, aborted_of
from goqueue.pipeline.columns import Bounds
from goqueue.pipeline.errors import BadOption, DataLost
from goqueue.pipeline.options import EARLIEST, LATEST, SourceOptions
from goqueue.pipeline.segments import Aborted, DataDirectory, Segment
from goqueue.records import TopicPartition

# A task has a cost of its own: ranges are not cut into pieces smaller than this without being told to.
_PIECE_RECORDS_MIN = 50_000
# Partitions rarely share out evenly among cores, and while the last long task runs the other cores wait.
_PIECES_PER_CORE = 3
# What one task of a stream takes of several partitions: reading it costs less than a second task.
_BUNDLE_RECORDS_MAX = 4_000


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
class Task(InputPartition):
    """What one Spark task reads."""

    place: TopicPartition
    bounds: Bounds
    segments: tuple[Segment, ...] = ()
    aborted: tuple[Aborted, ...] = ()


@dataclass
class Bundle(InputPartition):
    """Small tasks that are one task for Spark."""

    tasks: tuple[Task, ...]


def bundles(options: SourceOptions, tasks: list[Task]) -> list[Bundle]:
    """The tasks of a micro-batch, small ones together unless the options say how they are to be cut."""
    is_told = options.min_partitions is not None or options.max_records is not None
    found: list[list[Task]] = []
    room = 0
    for task in tasks:
        size = task.bounds.end - task.bounds.start
        if is_told or size > room:
            found.append([])
            room = _BUNDLE_RECORDS_MAX
        found[-1].append(task)
        room -= size
    return [Bundle(tuple(one)) for one in found]


def start_offsets(options: SourceOptions, catalogue: Catalogue, places: list[TopicPartition], default: int) -> Offsets:
    """Where reading begins, as offsets: words and times are looked up now, and never again."""
    if options.starting_ms is not None:
        found = _by_time("starting", options.starting_ms, catalogue, places)
        late = [place for place, offset in found.items() if offset < 0]
        if late and options.late_start_is_error:
            raise BadOption("startingTimestamp", f"{late[0]} has no record as young as that")
        return found | dict(catalogue.latest(late).items())
    return _resolve("startingOffsets", default if options.starting is None else options.starting, catalogue, places)


def end_offsets(options: SourceOptions, catalogue: Catalogue, places: list[TopicPartition]) -> Offsets:
    """Where a batch ends."""
    latest = catalogue.latest(places)
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


def tasks_for(options: SourceOptions, ranges: Iterable[Range], times: Bounds) -> list[Task]:
    """Cut the ranges into tasks: by file where files are read, else by number of records."""
    wanted = [one for one in ranges if one.size]
    if not _uses_files(options):
        return [_task(piece, times) for piece in split(options, wanted)]
    directory = DataDirectory(options.path or "")
    aborted = aborted_of(options, {one.place for one in wanted})
    segments = {one.place: directory.segments(one.place) for one in wanted}
    tasks = []
    for piece in split(options, wanted):
        inside = [
            one
            for one in segments[piece.place]
            if one.base_offset < piece.end and (one.next_offset is None or one.next_offset > piece.start)
        ]
        if inside:
            begun = piece._replace(start=max(piece.start, inside[0].base_offset))
            tasks.append(_task(begun, times, tuple(inside), aborted.get(piece.place, ())))
    _check_covered(options, wanted, tasks)
    return tasks


def split(options: SourceOptions, ranges: list[Range]) -> list[Range]:
    """Pieces of the ranges, at least `minPartitions` of them where that is possible."""
    total = sum(one.size for one in ranges)
    if not total:
        return []
    wanted = options.min_partitions or _PIECES_PER_CORE * (os.cpu_count() or 1)
    piece = max(1, -(-total // wanted))
    if options.min_partitions is None:
        piece = max(piece, _PIECE_RECORDS_MIN)
    if options.max_records is not None:
        piece = min(piece, options.max_records)
    pieces = []
    for one in ranges:
        count = max(1, round(one.size / piece)) if options.max_records is None else -(-one.size // piece)
        edges = [one.start + one.size * number // count for number in range(count + 1)]
        pieces += [Range(one.place, low, high) for low, high in itertools.pairwise(edges) if low < high]
    return pieces


def _uses_files(options: SourceOptions) -> bool:
    """Files where there are some; `auto` asks the broker if this machine does not see the directory."""
    if options.path is None or options.transport == "fetch":
        return False
    return options.servers is None or options.transport == "files" or Path(options.path).is_dir()


def _task(piece: Range, times: Bounds, segments: tuple[Segment, ...] = (), aborted: tuple[Aborted, ...] = ()) -> Task:
    bounds = times._replace(start=piece.start, end=piece.end)
    near = tuple(one for one in aborted if one.last_offset >= piece.start and one.first_offset < piece.end)
    return Task(piece.place, bounds, segments, near)


def _check_covered(options: SourceOptions, wanted: list[Range], tasks: list[Task]) -> None:
    """Files may go while we look: what no file covers is lost."""
    for one in wanted:
        first = min((task.bounds.start for task in tasks if task.place == one.place), default=one.end)
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
