"""Markers: the control batches that end a transaction in one partition."""

from __future__ import annotations

from struct import Struct

from goqueue.codec.batch import CONTROL, HEADER_BYTES, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import build_batch, encode_batch
from goqueue.errors import CorruptBatch
from goqueue.ports import Buffer
from goqueue.records import NewRecord


def encode_marker(
    commit: bool,  # noqa: FBT001 - the one thing a marker says
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    now_ms: int,
) -> bytes:
    """The control batch that ends a transaction in one partition."""
    key = _KEY.pack(0, 1 if commit else 0)
    value = _VALUE.pack(0, coordinator_epoch)
    batch = encode_batch(
        [NewRecord(key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        now_ms=now_ms,
    )
    header = parse_batch_header(batch)
    return build_batch(header._replace(attributes=header.attributes | CONTROL), batch[HEADER_BYTES:])


def marker_is_commit(batch: Buffer) -> bool:
    """Whether a control batch ends its transaction by commit; any but the two markers is corrupt."""
    records = decode_records(batch)
    key = records[0].key if len(records) == 1 else None
    if not parse_batch_header(batch).is_control or key is None or len(key) < _KEY.size:
        raise CorruptBatch("the control record is not a transaction marker")
    _, kind = _KEY.unpack_from(key)
    if kind not in {0, 1}:
        raise CorruptBatch(f"control record of type {kind} is not a transaction marker")
    return bool(kind)


_KEY = Struct(">hh")
_VALUE = Struct(">hi")
