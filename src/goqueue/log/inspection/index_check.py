"""Whether the derived files of a partition agree with its frames and their own checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct

from goqueue.codec.batch import BatchHeader
from goqueue.codec.frame import FrameHeader
from goqueue.errors import DamagedIndex
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.index.offset_index import ENTRY as OFFSET_ENTRY
from goqueue.log.index.time_index import ENTRY as TIME_ENTRY
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.segment.file_names import (
    ABORTED_INDEX,
    CHECKPOINT,
    LANE_INDEX,
    OFFSET_INDEX,
    PRODUCER_SNAPSHOT,
    TIME_INDEX,
    file_name,
    offset_in,
)
from goqueue.log.state.checkpoint import Checkpoint
from goqueue.log.state.producer_state import ProducerState
from goqueue.ports import Files


@dataclass(frozen=True, slots=True)
class IndexFault:
    """A derived file that does not agree with the frames. Nothing is lost: it can be built again."""

    file: str
    reason: str


class IndexCheck:
    """Compares the indexes of a segment with its frames as they go by."""

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        self._files = files
        self._stem = f"{directory}/{file_name(base_offset, '')}"
        self._base_offset = base_offset
        # Every entry is struck out when the frame it names goes by; what is left names none.
        self._positions = {position: offset for offset, position in self._entries(OFFSET_INDEX, OFFSET_ENTRY)}
        self._times = {offset: timestamp for timestamp, offset in self._entries(TIME_INDEX, TIME_ENTRY)}

    def see(self, position: int, header: FrameHeader, batch: BatchHeader) -> None:
        """Strike out the entries that tell the truth about the frame at `position`."""
        relative = header.offset - self._base_offset
        if self._positions.get(position) == relative:
            del self._positions[position]
        noted_ms = self._times.get(relative)
        # Earlier versions noted the 0 of a batch without timestamps. It does no harm: readers know that it is no time.
        if noted_ms is not None and noted_ms in {frame_time_ms(header, batch), batch.max_timestamp_ms}:
            del self._times[relative]

    def faults(self, *, is_damaged: bool) -> list[IndexFault]:
        """What is wrong. Entries may well point into damaged bytes: then they are not at fault."""
        faults = [fault for fault in (self._fault(LANE_INDEX), self._fault(ABORTED_INDEX)) if fault is not None]
        if self._positions and not is_damaged:
            reason = f"{len(self._positions)} entries name no frame, the first one byte {min(self._positions)}"
            faults.append(IndexFault(self._stem + OFFSET_INDEX, reason))
        if self._times and not is_damaged:
            first = self._base_offset + min(self._times)
            reason = f"{len(self._times)} entries are not true of their frame, the first one offset {first}"
            faults.append(IndexFault(self._stem + TIME_INDEX, reason))
        return faults

    def _entries(self, suffix: str, entry: Struct) -> Iterator[tuple[int, int]]:
        path = self._stem + suffix
        if not self._files.exists(path):
            return iter(())
        data = self._files.read(path)
        whole = len(data) - len(data) % entry.size
        return ((key, value) for key, value in entry.iter_unpack(memoryview(data)[:whole]))

    def _fault(self, suffix: str) -> IndexFault | None:
        path = self._stem + suffix
        if not self._files.exists(path):
            return None
        decode: Callable[[bytes], object] = LaneIndex.decode if suffix == LANE_INDEX else AbortedIndex.decode
        try:
            decode(self._files.read(path))
        except DamagedIndex as error:
            return IndexFault(path, error.reason)
        return None


def faults_of_snapshots(files: Files, directory: str) -> list[IndexFault]:
    """The checkpoint and the producer snapshots that fail their checksum."""
    faults: list[IndexFault] = []
    for name in files.list(directory):
        path = f"{directory}/{name}"
        try:
            if name == CHECKPOINT:
                Checkpoint.decode(files.read(path))
            elif offset_in(name, PRODUCER_SNAPSHOT) is not None and files.size(path):
                # An empty one was written just before a power cut and never synced: there is none, as recovery sees it.
                ProducerState.decode(files.read(path), window_batches=1, expiry_ms=1)
        except DamagedIndex as error:
            faults.append(IndexFault(path, error.reason))
    return faults
