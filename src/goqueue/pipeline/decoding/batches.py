"""Many batches in one buffer, and what their headers say, as arrays: the cost of Python is paid per chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goqueue.codec.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    parse_batch_header,
)
from goqueue.codec.frame import HEADER_BYTES as FRAME_HEADER_BYTES

# Where a frame's header has the time of its append, in nanoseconds.
_APPEND_TIME_AT = 16
# The header as `codec.batch` has it.
_HEAD = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)


class Batches:
    """Batches that were found sound and lie in `view`, each from its `start` on."""

    def __init__(self, view: memoryview, starts: Sequence[int] | np.ndarray, heads: np.ndarray | None = None) -> None:
        self.view = view
        self.start = np.asarray(starts, np.int64)
        if heads is None:
            # Headers begin at any byte: an array of all places where one could.
            places = max(len(view) - HEADER_BYTES + 1, 0)
            heads = np.ndarray((places,), _HEAD, np.frombuffer(view, np.uint8), 0, (1,))[self.start]
        self._heads = heads

    def __len__(self) -> int:
        return len(self.start)

    def where(self, keep: np.ndarray) -> Batches:
        """Those of them for which `keep` is true."""
        return self if keep.all() else Batches(self.view, self.start[keep], self._heads[keep])

    def header(self, number: int) -> BatchHeader:
        """The header of one of them."""
        return parse_batch_header(self.view, int(self.start[number]))

    def headers(self) -> list[BatchHeader]:
        """All headers, for who looks at them one by one."""
        return [parse_batch_header(self.view, start) for start in self.start.tolist()]

    def bytes_of(self, number: int) -> memoryview:
        """One batch with its header."""
        start = int(self.start[number])
        return self.view[start : start + int(self.size[number])]

    def _field(self, name: str) -> np.ndarray:
        return self._heads[name].astype(np.int64)

    @property
    def size(self) -> np.ndarray:
        """Bytes of each, header and all."""
        return self._field("length") + 12

    @property
    def count(self) -> np.ndarray:
        """Records in each."""
        return self._field("count")

    @property
    def base_offset(self) -> np.ndarray:
        """What the offset deltas are added to."""
        return self._field("base_offset")

    @property
    def last_offset(self) -> np.ndarray:
        """The last offset that each covers."""
        return self._field("base_offset") + self._field("last_offset_delta")

    @property
    def base_timestamp_ms(self) -> np.ndarray:
        """What the timestamp deltas are added to."""
        return self._field("base_timestamp_ms")

    @property
    def max_timestamp_ms(self) -> np.ndarray:
        """The time of all records, if the broker's clock stamped them."""
        return self._field("max_timestamp_ms")

    @property
    def append_ms(self) -> np.ndarray:
        """When each was stored; only of batches whose frames lie around them."""
        data = np.frombuffer(self.view, np.uint8)
        places = self.start - FRAME_HEADER_BYTES + _APPEND_TIME_AT
        return np.ndarray((len(data) - 7,), ">i8", data, 0, (1,))[places].astype(np.int64) // 1_000_000

    @property
    def producer_id(self) -> np.ndarray:
        """Who wrote each; -1 for nobody in particular."""
        return self._field("producer_id")

    @property
    def codec(self) -> np.ndarray:
        """How the records of each are packed."""
        return self._field("attributes") & CODEC_MASK

    @property
    def is_append_time(self) -> np.ndarray:
        """Whether the broker's clock stamped the records."""
        return (self._field("attributes") & LOG_APPEND_TIME) != 0

    @property
    def is_control(self) -> np.ndarray:
        """Whether each is a marker of a transaction."""
        return (self._field("attributes") & CONTROL) != 0

    @property
    def is_transactional(self) -> np.ndarray:
        """Whether each is part of a transaction."""
        return (self._field("attributes") & TRANSACTIONAL) != 0
