"""Lanes of one segment (`.laneindex`): which offsets are of which priority, as runs.

A run says that the messages at `count` offsets from `first_offset` on are all of one lane;
runs that follow each other in one lane are merged, so a segment of one lane has one run.
Control batches are of no lane. The file: a header (magic `GQLI`, version, base offset,
count, CRC), then blocks of up to 63 runs with a CRC each. A sealed index is searched block
by block with pread and never held in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.crc32c import crc32c
from goqueue.codec.frame import HEADER_BYTES as FRAME_HEADER_BYTES
from goqueue.codec.frame import Flags
from goqueue.errors import DamagedIndex
from goqueue.log.index.batch_lanes import LaneRun, frame_runs

if TYPE_CHECKING:
    from goqueue.codec.frame import FrameHeader
    from goqueue.ports import Buffer, File

_MAGIC = b"GQLI"
_VERSION = 1
_HEADER = struct.Struct(">4sHqII")  # magic, version, base offset, count, crc of what is before it
_RUN = struct.Struct(">II")  # offset from the base; lane in the upper 3 bits, count in the lower 29
_RUNS_PER_BLOCK = 63
_BLOCK_BYTES = _RUNS_PER_BLOCK * _RUN.size + 4
_BLOCKS_PER_READ = 128
_COUNT_BITS = 29
_COUNT_MAX = (1 << _COUNT_BITS) - 1
# Skips the keyword handling of a NamedTuple's own constructor: this runs for every batch.
_lane_run = tuple.__new__


class LaneIndex:
    """The index of a segment that still grows: eight bytes a run, the last run unpacked.

    One thread appends while others read: every change is one assignment, and `_packed` always
    holds all runs before `_last`.
    """

    __slots__ = ("_last", "_packed", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._packed = bytearray()
        self._last: LaneRun | None = None

    def append_run(self, lane: int, first_offset: int, count: int) -> None:
        """Add the next run; offsets must rise."""
        last = self._last
        if last is not None:
            last_lane, last_first, last_count = last
            total = last_count + count
            if lane == last_lane and first_offset == last_first + last_count and total <= _COUNT_MAX:
                self._last = _lane_run(LaneRun, (lane, last_first, total))
                return
            self._packed += self._pack(last)
        self._last = _lane_run(LaneRun, (lane, first_offset, count))

    def runs(self, lane: int | None, from_offset: int) -> Iterator[LaneRun]:
        """The runs of a lane (None: of all) that reach `from_offset` or lie behind it, in order."""
        packed = self._all_packed()
        low, high = 0, len(packed) // _RUN.size
        while low < high:
            middle = (low + high) // 2
            if _unpack(packed, middle * _RUN.size, self.base_offset).end_offset <= from_offset:
                low = middle + 1
            else:
                high = middle
        return _matching(memoryview(packed)[low * _RUN.size :], self.base_offset, lane, from_offset)

    def some_runs(self, from_offset: int, runs_max: int) -> list[LaneRun]:
        """As `runs` of all lanes, but at most that many: the cost does not grow with the index."""
        # As in `_all_packed`: the last run first.
        last = self._last
        packed = self._packed
        low, high = 0, len(packed) // _RUN.size
        while low < high:
            middle = (low + high) // 2
            if _unpack(packed, middle * _RUN.size, self.base_offset).end_offset <= from_offset:
                low = middle + 1
            else:
                high = middle
        part = bytes(packed[low * _RUN.size : (low + runs_max) * _RUN.size])
        runs = list(_matching(part, self.base_offset, None, from_offset))
        if len(runs) < runs_max and last is not None and last.end_offset > from_offset:
            if runs and runs[-1].first_offset >= last.first_offset:
                return runs
            runs.append(last)
        return runs

    def truncate(self, offset: int) -> None:
        """The log now ends at `offset`: cut the runs there."""
        kept = [run for run in self.runs(None, self.base_offset) if run.first_offset < offset]
        self._packed = bytearray()
        self._last = None
        for run in kept:
            self.append_run(run.lane, run.first_offset, min(run.count, offset - run.first_offset))

    def __len__(self) -> int:
        return len(self._packed) // _RUN.size + (self._last is not None)

    def encode(self) -> bytes:
        """The file's content."""
        packed = self._all_packed()
        head = _HEADER.pack(_MAGIC, _VERSION, self.base_offset, len(packed) // _RUN.size, 0)[:-4]
        parts = [head, crc32c(head).to_bytes(4, "big")]
        for at in range(0, len(packed), _RUNS_PER_BLOCK * _RUN.size):
            block = packed[at : at + _RUNS_PER_BLOCK * _RUN.size]
            parts += (block, crc32c(block).to_bytes(4, "big"))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: Buffer, *, where: str = "lane index") -> LaneIndex:
        """What `encode` wrote, or DamagedIndex."""
        layout = _read_layout(data, len(data), where)
        index = cls(layout.base_offset)
        packed = b"".join(
            layout.check_block(data[layout.position(block) : layout.position(block + 1)], block, where)
            for block in range(layout.blocks)
        )
        if packed:
            index._packed += packed[: -_RUN.size]
            index._last = _unpack(packed, len(packed) - _RUN.size, index.base_offset)
        return index

    @classmethod
    def rebuild(cls, base_offset: int, frames: Iterable[tuple[FrameHeader, Buffer]]) -> LaneIndex:
        """The index again, from a segment's frames. Batches are opened only where lanes are mixed."""
        index = cls(base_offset)
        for header, frame in frames:
            if header.flags & Flags.CONTROL:
                continue
            value = memoryview(frame)[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + header.value_bytes]
            for run in frame_runs(header.flags, header.priority, parse_batch_header(value), value):
                index.append_run(*run)
        return index

    def _all_packed(self) -> bytes:
        # The last run is looked at first: by the time the others are copied it may be among them.
        last = self._last
        packed = bytes(self._packed)
        if last is None:
            return packed
        if packed and _unpack(packed, len(packed) - _RUN.size, self.base_offset).first_offset >= last.first_offset:
            return packed
        return packed + self._pack(last)

    def _pack(self, run: LaneRun) -> bytes:
        lane, first_offset, count = run
        return _RUN.pack(first_offset - self.base_offset, lane << _COUNT_BITS | count)


def read_runs(file: File, lane: int | None, from_offset: int, *, where: str, nowait: bool = False) -> Iterator[LaneRun]:
    """As `LaneIndex.runs`, from the file of a sealed segment; DamagedIndex where it is unsound."""
    layout = _read_layout(file.pread(_HEADER.size, 0, nowait=nowait), file.size(), where)
    low, high = 0, layout.blocks
    while high - low > 1:  # the last block that begins at or before the offset
        middle = (low + high) // 2
        block = layout.check_block(file.pread(_BLOCK_BYTES, layout.position(middle), nowait=nowait), middle, where)
        if _unpack(block, 0, layout.base_offset).first_offset <= from_offset:
            low = middle
        else:
            high = middle
    for start in range(low, layout.blocks, _BLOCKS_PER_READ):
        stop = min(start + _BLOCKS_PER_READ, layout.blocks)
        size = layout.position(stop) - layout.position(start)
        data = memoryview(file.pread(size, layout.position(start), nowait=nowait))
        for block_number in range(start, stop):
            at = (block_number - start) * _BLOCK_BYTES
            packed = layout.check_block(data[at : at + _BLOCK_BYTES], block_number, where)
            yield from _matching(packed, layout.base_offset, lane, from_offset)


class _Layout(NamedTuple):
    """Where the blocks of a file lie."""

    base_offset: int
    runs: int

    @property
    def blocks(self) -> int:
        return -(-self.runs // _RUNS_PER_BLOCK)

    def position(self, block: int) -> int:
        """Where a block begins; one behind the last: where the file ends."""
        return _HEADER.size + min(block * _RUNS_PER_BLOCK, self.runs) * _RUN.size + block * 4

    def check_block(self, data: Buffer, block: int, where: str) -> memoryview:
        """The packed runs of a block whose checksum holds."""
        view = memoryview(data)
        size = self.position(block + 1) - self.position(block)
        if len(view) < size or crc32c(view[: size - 4]) != int.from_bytes(view[size - 4 : size], "big"):
            raise DamagedIndex(where, f"the block at byte {self.position(block)} fails its checksum")
        return view[: size - 4]


def _read_layout(header: Buffer, file_bytes: int, where: str) -> _Layout:
    if len(header) < _HEADER.size:
        raise DamagedIndex(where, f"only {len(header)} bytes")
    magic, version, base_offset, runs, crc = _HEADER.unpack_from(header)
    if magic != _MAGIC or version != _VERSION or crc32c(memoryview(header)[: _HEADER.size - 4]) != crc:
        raise DamagedIndex(where, "its header is not sound")
    layout = _Layout(base_offset, runs)
    if file_bytes != layout.position(layout.blocks):
        raise DamagedIndex(where, f"{file_bytes} bytes do not hold {runs} runs")
    return layout


def _matching(packed: Buffer, base_offset: int, lane: int | None, from_offset: int) -> Iterator[LaneRun]:
    for delta, word in _RUN.iter_unpack(packed):
        if lane is None or word >> _COUNT_BITS == lane:
            count = word & _COUNT_MAX
            if base_offset + delta + count > from_offset:
                yield LaneRun(word >> _COUNT_BITS, base_offset + delta, count)


def _unpack(packed: Buffer, position: int, base_offset: int) -> LaneRun:
    delta, word = _RUN.unpack_from(packed, position)
    return LaneRun(word >> _COUNT_BITS, base_offset + delta, word & _COUNT_MAX)
