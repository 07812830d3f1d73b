"""What every batch from a client must pass before it is written, whatever the features say."""

from __future__ import annotations

from goqueue.broker.refused_records import check_records, name_records
from goqueue.codec.batch import MAGIC, PREFIX_BYTES, BatchHeader, check_batch, parse_batch_header, split_batches
from goqueue.codec.batch_decode import decode_records
from goqueue.errors import (
    CorruptBatch,
    GoQueueError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    MessageTooLarge,
    NotEnoughReplicas,
    UnsupportedFormat,
)
from goqueue.metadata.topic_config import TopicConfig
from goqueue.ports import Buffer
from goqueue.records import Acks, Record

_NO_TIMESTAMP = -1


def header_of(batch: Buffer) -> BatchHeader:
    """The header of exactly one batch of the current format. Its checksum is the log's business."""
    size = len(batch)
    if size > PREFIX_BYTES and batch[PREFIX_BYTES] != MAGIC:
        raise UnsupportedFormat(
            f"message format {batch[PREFIX_BYTES]} is not supported", hint="use a client that speaks format 2"
        )
    header = parse_batch_header(batch)
    if header[1] + 12 != size:
        raise _not_one_batch(batch, header)
    return header


def check_limits(config: TopicConfig, header: BatchHeader, batch: Buffer, now_ms: int) -> None:
    """Size and timestamps, from the header alone; only a batch that is refused is opened, to name its bad records."""
    if header[1] + 12 > config.max_message_bytes:
        raise MessageTooLarge(header.size, config.max_message_bytes)
    # By index: this runs for every batch. 7 is the first record's timestamp, 8 the largest.
    first_ms = header[7]
    if header[8] - now_ms > config.timestamp_after_max_ms or (
        now_ms - first_ms > config.timestamp_before_max_ms and first_ms != _NO_TIMESTAMP
    ):
        if not config.stamps_records:
            name_records(batch, lambda record: check_timestamp(config, record.timestamp_ms, now_ms))
        check_timestamp(config, header[8], now_ms)
        check_timestamp(config, first_ms, now_ms)


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


def check_keys(batch: Buffer) -> None:
    """A compacted topic keeps the newest record of each key, so each record needs one."""
    header = check_batch(batch)

    def has_key(record: Record) -> None:
        if record.key is None:
            raise keyless(record.offset - header.base_offset)

    check_records(decode_records(batch), has_key)


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
