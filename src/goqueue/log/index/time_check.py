"""Whether an entry of a time index is true of the frame that it names.

The index has no checksum. Believed unseen, a flipped bit would hide records from whoever looks for a time, and let
retention take a segment for old. The entry names the frame that reached the time, so one look tells.
"""

from __future__ import annotations

from goqueue.codec.frame import FrameDamage
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.segment.frame_reader import frames_in
from goqueue.ports import File


def is_true(log: File, position: int, end: int, *, offset: int, timestamp_ms: int) -> bool:
    """Whether the frame of that offset, at or behind `position`, has this as its largest timestamp."""
    try:
        for _, _, frame in frames_in(log, position, end):
            if frame.header.offset >= offset:
                # Earlier versions noted what the batch says, also where that is no time.
                times = {frame_time_ms(frame.header, frame.batch), frame.batch.max_timestamp_ms}
                return frame.header.offset == offset and timestamp_ms in times
    except FrameDamage:
        pass
    return False
