"""What every batch from a client must pass before it is written, whatever the features say."""

from __future__ import annotations

from goqueue.codec.batch import LENGTH_END, MAGIC, PREFIX_BYTES, BatchHeader, parse_batch_header, split_batches
from goqueue.errors import (
    CorruptBatch,
    GoQueueError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    NotEnoughReplicas,
    UnsupportedFormat,
)
from goqueue.metadata.settings.topic_config import TopicConfig
from goqueue.ports import Buffer
from goqueue.records import Acks

_NO_TIMESTAMP = -1


def header_of(batch: Buffer) -> BatchHeader:
    """The header of exactly one batch of the current format. Its checksum is the log's business."""
    size = len(batch)
    if size > PREFIX_BYTES and batch[PREFIX_BYTES] != MAGIC:
        raise UnsupportedFormat(
            f"message format {batch[PREFIX_BYTES]} is not supported", hint="use a client that speaks format 2"
        )
    header = parse_batch_header(batch)
    if header.length + LENGTH_END != size:
        raise _not_one_batch(batch, header)
    return header


def check_timestamp(config: TopicConfig, timestamp_ms: int, now_ms: int) -> None:
    """Refuse a timestamp too far from the broker's clock, unless the broker stamps records itself."""
    if config.stamps_records or timestamp_ms == _NO_TIMESTAMP:
        return
    ahead_ms = timestamp_ms - now_ms
    if ahead_ms > config.timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {timestamp_ms} lies {ahead_ms} ms ahead of the broker's clock; "
            f"message.timestamp.after.max.ms is {config.timestamp_after_max_ms}",
            field="timestamp",
        )
    if -ahead_ms > config.timestamp_before_max_ms:
        raise InvalidTimestamp(
            f"timestamp {timestamp_ms} lies {-ahead_ms} ms behind the broker's clock; "
            f"message.timestamp.before.max.ms is {config.timestamp_before_max_ms}",
            field="timestamp",
        )


def keyless(position: int) -> InvalidRecord:
    """The refusal of a record without a key, by its position in what was sent."""
    return InvalidRecord(
        f"record {position} has no key, and the topic is compacted",
        field="key",
        hint="give every record a key, or set cleanup.policy to delete",
    )


def check_acks(acks: int, in_sync_replicas: int, min_insync_replicas: int) -> None:
    """Refuse a durability that does not exist, or that cannot be promised now."""
    if acks not in {Acks.NONE, Acks.LEADER, Acks.ALL}:
        raise InvalidRequiredAcks(f"acks is {acks}", field="acks", hint="use 0, 1 or -1 (all)")
    if acks == Acks.ALL and in_sync_replicas < min_insync_replicas:
        raise NotEnoughReplicas(
            f"{in_sync_replicas} in-sync replicas are fewer than min.insync.replicas={min_insync_replicas}"
        )


def _not_one_batch(batch: Buffer, header: BatchHeader) -> GoQueueError:
    try:
        count = len(split_batches(batch))
    except GoQueueError:
        return CorruptBatch(f"a batch of {len(batch)} bytes says that it has {header.size}")
    return InvalidRecord(f"{count} batches were sent to one partition at once; only one is allowed")
