"""The shard's log: what the coordinator asks of a partition, and how decisions become batches."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.markers import encode_marker, marker_is_commit
from goqueue.coordinator.shard import Entry, Record, Transaction
from goqueue.errors import StorageError
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, NewRecord

_READ_BYTES = 1024 * 1024
_ShardId_contra = TypeVar("_ShardId_contra", contravariant=True)


class BatchesRead(Protocol):
    """Closed batches, and where to go on."""

    @property
    def batches(self) -> Sequence[Buffer]:
        """One batch after the other."""
        ...

    @property
    def next_offset(self) -> int:
        """The first offset not read."""
        ...


class ReadableLog(Protocol):
    """What replay and snapshots need to know of a log."""

    @property
    def topic_id(self) -> UUID:
        """Whose log it is; a topic that was created again has another."""
        ...

    @property
    def start_offset(self) -> int:
        """The first offset still there."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch of the last record; -1 without one."""
        ...

    def end_offset_for_epoch(self, epoch: int, /) -> tuple[int, int]:
        """The newest epoch not above this one, and where it ends."""
        ...

    def read_batches(self, offset: int, /, *, max_bytes: int, upper: int) -> BatchesRead:
        """At least one batch if there is one below `upper`."""
        ...


class ShardWriter(Protocol):
    """The door to a partition, for batches and for markers."""

    def append(self, batch: Buffer, *, now_ms: int, marker: bool = False) -> Appended:
        """Write one closed batch; it is not durable yet."""
        ...

    def reached(self, end_offset: int, acks: Acks, /) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is safe; None if it is now."""
        ...

    def replicated(self, end_offset: int, /) -> Awaitable[None] | None:
        """Wait until every in-sync replica has all below `end_offset`; None if they do now."""
        ...

    def readable(self, end_offset: int, /) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is committed, however few replicas are in sync; None if it is now."""
        ...


class ShardPartition(Protocol):
    """One log: a partition of an internal topic, or one of the family of a partition."""

    @property
    def log(self) -> ReadableLog:
        """For replay."""
        ...

    @property
    def writer(self) -> ShardWriter:
        """For what is decided."""
        ...


class OpenPartition(Protocol[_ShardId_contra]):
    """Opens the log of a shard; the first call creates it."""

    def __call__(self, shard: _ShardId_contra, /) -> Awaitable[ShardPartition]:
        """Open, and stay open."""
        ...


class PartitionJournal:
    """Writes decisions to a partition, one batch each."""

    def __init__(self, writer: ShardWriter) -> None:
        self._writer = writer

    def append(self, records: Sequence[Record], transaction: Transaction | None, now_ms: int) -> int:
        """Write the records as one batch and return the offset behind it."""
        new = [NewRecord(key, value) for key, value in records]
        if transaction is None:
            batch = encode_batch(new, now_ms=now_ms)
        else:
            batch = encode_batch(
                new,
                now_ms=now_ms,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transactional=True,
            )
        return self._writer.append(batch, now_ms=now_ms).end_offset

    def append_marker(self, transaction: Transaction, *, commit: bool, coordinator_epoch: int, now_ms: int) -> int:
        """Write the end of a transaction and return the offset behind it."""
        marker = encode_marker(
            commit,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            now_ms=now_ms,
        )
        return self._writer.append(marker, now_ms=now_ms, marker=True).end_offset


def read_entries(log: ReadableLog, offset: int, upper: int) -> tuple[list[Entry], int]:
    """About a megabyte of the log, decoded, and the offset to go on from. May block."""
    read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=upper)
    if not read.batches:
        # Compaction may leave nothing before `upper`; then all has been read.
        return [], upper
    return list(_entries(read.batches)), read.next_offset


def _entries(batches: Sequence[Buffer]) -> Iterator[Entry]:
    for batch in batches:
        header = parse_batch_header(batch)
        if header.is_control:
            yield Entry(header.last_offset + 1, transaction_of=header.producer_id, commit=marker_is_commit(batch))
            continue
        records = [(_key(record.key), record.value) for record in decode_records(batch)]
        producer_id = header.producer_id if header.is_transactional else None
        yield Entry(header.last_offset + 1, records, producer_id)


def _key(key: bytes | None) -> bytes:
    if key is None:
        raise StorageError("a coordinator's log holds a record without a key")
    return key
