"""CRC-32C (Castagnoli), the checksum of frames and of Kafka's record batches.

`zlib.crc32` is another polynomial; nothing may use it for stored bytes.
"""

from __future__ import annotations

from crc32c import crc32c as _crc32c

from goqueue.ports import Buffer


def crc32c(data: Buffer, value: int = 0) -> int:
    """Checksum of `data`, continuing from `value`. Takes any buffer without copying it."""
    return _crc32c(data, value)
