"""Record batches for tests."""

from __future__ import annotations

from typing import Any

from goqueue.codec.batch import split_batches
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.records import NewRecord, Record


def batch(*values: bytes | None, key: bytes | None = None, now_ms: int = 1_700_000_000_000, **more: Any) -> bytes:
    """One closed batch of these values, as a client makes it."""
    return encode_batch([NewRecord(key, value) for value in values], now_ms=now_ms, **more)


def records_of(data: bytes) -> list[Record]:
    """All records of batches that lie back to back."""
    return [record for one in split_batches(data) for record in decode_records(one)]
