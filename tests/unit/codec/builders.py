"""Batches, records and frames for the tests of this folder."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hypothesis import strategies as st

from goqueue.codec.batch import BatchHeader, encode_prefix, parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.crc32c import crc32c
from goqueue.codec.frame import encode_frame_header
from goqueue.records import NewRecord

NOW_MS = 1_700_000_000_000

timestamps_ms = st.integers(-1, 2**53)
record_headers = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), st.none() | st.binary(max_size=12)), max_size=3
).map(tuple)
new_records = st.builds(
    NewRecord,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=300),
    headers=record_headers,
    timestamp_ms=st.none() | timestamps_ms,
)


def some_batch(count: int = 3) -> bytes:
    return encode_batch([NewRecord(b"k%d" % i, b"value %d" % i) for i in range(count)], now_ms=NOW_MS)


def raw_batch(section: bytes, *, count: int, attributes: int = 0, last_offset_delta: int | None = None) -> bytes:
    """A batch with a right checksum around any bytes at all."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    tail = struct.pack(">hiqqqhii", attributes, delta, NOW_MS, NOW_MS, -1, -1, -1, count) + section
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


def with_fields(batch: bytes, **fields: int) -> bytes:
    """The batch with header fields changed and its checksum made right again."""
    changed = parse_batch_header(batch)._replace(**fields)
    return sealed(changed, batch[61:])


def sealed(header: BatchHeader, section: bytes) -> bytes:
    body = struct.pack(">qiibIhiqqqhii", *header)[21:] + section
    return struct.pack(">qiibI", *header[:4], crc32c(body)) + body


def framed(
    batch: bytes, *, offset: int = 0, flags: int = 0, priority: int = 2, headers: bytes = b"", leader_epoch: int = 0
) -> bytes:
    """A whole frame, with the batch put at `offset` the way the log does it."""
    parts: Sequence[bytes] = (encode_prefix(offset, len(batch) - 12, leader_epoch), batch[16:])
    header = encode_frame_header(
        parts, flags=flags, offset=offset, timestamp_ns=NOW_MS * 1_000_000, priority=priority, headers=headers
    )
    return b"".join((header, *parts, headers))
