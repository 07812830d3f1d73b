"""The batches of one segment file, found sound, in chunks."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from goqueue.codec.frame import FrameDamage
from goqueue.codec.frame_walk import sound_frames
from goqueue.errors import CorruptFrame
from goqueue.pipeline.decoding.batches import Batches
from goqueue.pipeline.decoding.varints import ROOM_BYTES
from goqueue.pipeline.source.segments import Segment, outlines


def read_segment(segment: Segment, start: int, end: int, chunk_bytes: int) -> Iterator[Batches]:
    """The batches of a file that reach into [start, end), in chunks that lie in one buffer each.

    A chunk is to be done with before the next is asked for: its memory is used again.
    """
    with Path(segment.path).open("rb", buffering=0) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        position = _seek(file.fileno(), segment, start)
        reader = _Reader(file.fileno())
        wanted = chunk_bytes
        while position < file_bytes:
            size = min(wanted, file_bytes - position)
            view = reader.read(position, size)
            try:
                found, used, is_done = sound_frames(view, end)
            except FrameDamage as damage:
                raise CorruptFrame(segment.path, position + damage.position, damage.reason) from None
            if found:
                batches = Batches(view[:used], found)
                yield batches.where(batches.last_offset >= start)
            if is_done:
                return
            # A frame larger than the chunk is read again with room for all of it.
            wanted = chunk_bytes if used else wanted * 2
            if not used and size == file_bytes - position:
                if segment.next_offset is None:
                    return
                raise CorruptFrame(segment.path, position, "the last frame is cut short")
            position += used


class _Reader:
    """Bytes of a file, in memory that is used again.

    Not mapped: to map a page costs as much as to copy it, and a file that becomes shorter would end the process.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._buffer = bytearray()
        self._address = 0

    def read(self, position: int, size: int) -> memoryview:
        """So many bytes, fewer where the file has become shorter; with room behind them."""
        if len(self._buffer) < mmap.PAGESIZE + size + ROOM_BYTES:
            self._buffer = bytearray(mmap.PAGESIZE + size + ROOM_BYTES)
            self._address = np.frombuffer(self._buffer, np.uint8).ctypes.data
        # Where a page of the file begins, a page of memory does. A few bytes behind it would be the worst place:
        # there some processors (Zen 3) copy at an eighth of their speed.
        skip = (position - self._address) % mmap.PAGESIZE
        view = memoryview(self._buffer)[skip : skip + size]
        filled = 0
        while filled < size:
            count = os.preadv(self._handle, [view[filled:]], position + filled)
            if not count:
                break
            filled += count
        return view[:filled]


def _seek(handle: int, segment: Segment, start: int) -> int:
    """The position of the last frame that begins at or before `start`: none in front of it reaches so far."""
    position = 0
    if start <= segment.base_offset:
        return position
    for frame in outlines(handle, segment):
        if frame.offset > start:
            break
        position = frame.position
    return position
