"""Kafka's record batch, format 2: read its header, check it, open it, build it.

    BaseOffset(8) Length(4) LeaderEpoch(4) Magic(1) CRC(4) Attributes(2)
    LastOffsetDelta(4) BaseTimestamp(8) MaxTimestamp(8) ProducerId(8)
    ProducerEpoch(2) BaseSequence(4) Count(4), then the records, packed or not

The CRC covers everything behind it, so base offset and leader epoch can be changed
without touching it. Records are read and written by aiokafka's native code, which
never sees a compressed batch: packing is done here, with a bound.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import pairwise
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c

from goqueue.codec.compression import Codec, compress, decompress
from goqueue.errors import CorruptBatch, InvalidRecord, MessageTooLarge, UnsupportedCompression, UnsupportedFormat
from goqueue.ports import Buffer
from goqueue.records import Header, NewRecord, Record, TimestampType

HEADER_BYTES = 61
# The bytes that the broker rewrites when it gives a batch its place: up to the magic.
PREFIX_BYTES = 16
MAGIC = 2
BATCH_BYTES_MAX = 2**31 - 1
# What a compressed batch may unpack to: far above any client's batch, far below a bomb.
RECORDS_BYTES_MAX = 128 * 1024 * 1024

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a header for

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + 12

    @property
    def codec(self) -> int:
        """How the records are packed: a value of `Codec`, unless the batch is bad."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction's marker instead of messages."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock stamped the records."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def last_offset(self) -> int:
        """The last offset the batch covers, whether or not a record is left there."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The producer's number for the last record; after 2^31 - 1 comes 0. -1 without a producer."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def parse_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`, unchecked but for its presence."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {len(buffer) - position} bytes is shorter than its header")
    return _new_header(BatchHeader, _HEADER.unpack_from(buffer, position))


def check_batch(buffer: Buffer) -> BatchHeader:
    """Check that `buffer` is exactly one batch that a client may send. The records stay closed."""
    header = verify_batch(buffer)
    attributes, count = header[5], header[12]
    if count < 1 or header[6] != count - 1:
        raise CorruptBatch(f"a batch of {count} records ends at offset delta {header[6]}")
    if attributes & CODEC_MASK > Codec.ZSTD:
        raise UnsupportedCompression(f"compression type {attributes & CODEC_MASK} is not known")
    if attributes & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if header[9] >= 0 and (header[10] < 0 or (header[11] < 0 and not attributes & TRANSACTIONAL)):
        # A coordinator's own batches in a transaction have no sequence: it does not send them twice.
        raise InvalidRecord("a batch with a producer id needs an epoch and a sequence")
    if attributes & TRANSACTIONAL and header[9] < 0:
        raise InvalidRecord("a transactional batch needs a producer id")
    return header


def verify_batch(buffer: Buffer) -> BatchHeader:
    """Check format, length and checksum of one batch, whoever made it."""
    size = len(buffer)
    if size < HEADER_BYTES or buffer[PREFIX_BYTES] != MAGIC:
        if size > PREFIX_BYTES and buffer[PREFIX_BYTES] != MAGIC:
            raise UnsupportedFormat(f"message format {buffer[PREFIX_BYTES]} is not supported", hint="use format 2")
        raise CorruptBatch(f"a batch of {size} bytes is shorter than its header")
    header: BatchHeader = _new_header(BatchHeader, _HEADER.unpack_from(buffer))
    if header[1] + 12 != size:
        raise CorruptBatch(f"a batch of {size} bytes says that it has {header[1] + 12}")
    if crc32c(memoryview(buffer)[_ATTRIBUTES_AT:]) != header[4]:
        raise CorruptBatch("the batch's checksum does not match")
    return header


def split_batches(buffer: Buffer) -> list[memoryview]:
    """The batches that lie back to back in `buffer`, as views. None may be cut short."""
    view = memoryview(buffer)
    batches: list[memoryview] = []
    position, size = 0, len(view)
    while position < size:
        if size - position > PREFIX_BYTES and view[position + PREFIX_BYTES] != MAGIC:
            raise UnsupportedFormat(f"message format {view[position + PREFIX_BYTES]} is not supported")
        if size - position < HEADER_BYTES:
            raise CorruptBatch(f"{size - position} bytes are left behind the last whole batch")
        (length,) = _LENGTH.unpack_from(view, position + 8)
        end = position + 12 + length
        if length < HEADER_BYTES - 12 or end > size:
            raise CorruptBatch(f"a batch claims {length + 12} bytes of the {size - position} left")
        batches.append(view[position:end])
        position = end
    return batches


def encode_prefix(base_offset: int, length: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch at its place in the log; `batch[16:]` follows unchanged."""
    return _PREFIX.pack(base_offset, length, leader_epoch)


def decode_records(
    batch: Buffer, *, size_max: int = RECORDS_BYTES_MAX, only: Container[int] | None = None
) -> list[Record]:
    """Open a batch, or take `only` the records at some offsets out of it, which costs a fraction where they are few.

    Offsets come from each record's own delta, so gaps are no trouble.

    The checksum is not looked at again: bytes from a log were checked with their
    frame, bytes from a stranger go through `verify_batch` first.
    """
    header = parse_batch_header(batch)
    if header.magic != MAGIC:
        raise UnsupportedFormat(f"message format {header.magic} is not supported")
    if header.size != len(batch) or header.count < 0:
        raise CorruptBatch(f"a batch of {len(batch)} bytes claims {header.size} bytes, {header.count} records")
    section: Buffer = memoryview(batch)[HEADER_BYTES:]
    if header.codec:
        section = decompress(header.codec, section, size_max)
    try:
        opened = list(DefaultRecordBatch(_plain_batch(header, section)))
        records = [
            Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, tuple(r.headers))
            for r in opened
            if only is None or r.offset in only
        ]
    except (CorruptRecordException, ValueError, OverflowError, MemoryError) as error:
        raise CorruptBatch(f"the records of a batch cannot be read: {error}") from error
    _check_offsets(header, records)
    return records


def encode_batch(
    records: Sequence[NewRecord],
    *,
    codec: int = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    now_ms: int,
) -> bytes:
    """Build a batch as a client would: base offset 0, no leader epoch."""
    if not records:
        raise InvalidRecord("a batch needs at least one record")
    stamps = [now_ms if r.timestamp_ms is None else r.timestamp_ms for r in records]
    rows = ((i, stamps[i], r.key, r.value, r.headers) for i, r in enumerate(records))
    attributes = codec | (TRANSACTIONAL if transactional else 0)
    template = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=stamps[0],
        max_timestamp_ms=max(stamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )
    return _build(template, _encode_section(rows, stamps[0]))


def encode_section_batch(
    section: Buffer,
    count: int,
    *,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    codec: int = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """As `encode_batch`, around `count` records that somebody else has written back to back."""
    template = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL if transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
    )
    return _build(template, section)


def encode_sparse_batch(header: BatchHeader, records: Sequence[Record]) -> bytes:
    """The batch of `header` with only `records` left in it, perhaps none.

    Place, offset range, producer, sequence and attributes stay, so that neither
    readers nor sequence checks can tell that something is gone.
    """
    base_ms, max_ms = header.base_timestamp_ms, header.max_timestamp_ms
    first_ms = records[0].timestamp_ms if records else base_ms
    if records and header.timestamp_type is TimestampType.CREATE_TIME:
        base_ms, max_ms = first_ms, max(r.timestamp_ms for r in records)
    rows = ((r.offset - header.base_offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records)
    section = _encode_section(rows, first_ms)
    kept = header._replace(base_timestamp_ms=base_ms, max_timestamp_ms=max_ms, count=len(records))
    _check_offsets(kept, records)
    return _build(kept, section)


def encode_marker(
    commit: bool,  # noqa: FBT001 - the one thing a marker says
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    now_ms: int,
) -> bytes:
    """The control batch that ends a transaction in one partition."""
    key = _MARKER_KEY.pack(0, 1 if commit else 0)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    batch = encode_batch(
        [NewRecord(key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        now_ms=now_ms,
    )
    header = parse_batch_header(batch)
    return _build(header._replace(attributes=header.attributes | CONTROL), batch[HEADER_BYTES:])


def marker_is_commit(batch: Buffer) -> bool:
    """Whether a control batch ends its transaction by commit; any but the two markers is corrupt."""
    records = decode_records(batch)
    key = records[0].key if len(records) == 1 else None
    if not parse_batch_header(batch).is_control or key is None or len(key) < _MARKER_KEY.size:
        raise CorruptBatch("this is no transaction marker")
    _, kind = _MARKER_KEY.unpack_from(key)
    if kind not in {0, 1}:
        raise CorruptBatch(f"control record of type {kind} is no transaction marker")
    return bool(kind)


def stamped(batch: Buffer, now_ms: int) -> bytes:
    """The batch with the broker's time in place of its producer's (LogAppendTime)."""
    header = parse_batch_header(batch)
    stamp = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp_ms=now_ms)
    return _build(stamp, memoryview(batch)[HEADER_BYTES:], packed=True)


_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_PREFIX = Struct(">qii")
_CRC = Struct(">I")
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
# A varint has at most ten bytes, and the native reader looks at them before it looks at the end.
_OVERREAD_ROOM = bytes(32)
_Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
# Skips the keyword handling of a NamedTuple's own constructor, which costs more than the parsing.
_new_header = tuple.__new__


def _plain_batch(header: BatchHeader, section: Buffer) -> memoryview:
    # The native reader must not see a codec. Behind its view lie spare bytes, so that a
    # record section that ends inside a varint cannot lead it out of the buffer.
    plain = _HEADER.pack(*header._replace(attributes=header.attributes & ~CODEC_MASK))
    whole = b"".join((plain, section, _OVERREAD_ROOM))
    return memoryview(whole)[: HEADER_BYTES + len(section)]


def _check_offsets(header: BatchHeader, records: Sequence[Record]) -> None:
    if not records:
        return
    if records[0].offset < header.base_offset or records[-1].offset > header.last_offset:
        raise CorruptBatch("a record's offset lies outside its batch")
    if any(left.offset >= right.offset for left, right in pairwise(records)):
        raise CorruptBatch("the offsets of a batch's records do not rise")


def _encode_section(rows: Iterable[_Row], first_ms: int) -> memoryview:
    # Times are handed over relative to the first: the native writer takes -1, which
    # is Kafka's "no timestamp", for "not set yet" and would lose it.
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)
    append = builder.append
    try:
        for delta, stamp_ms, key, value, headers in rows:
            if append(delta, stamp_ms - first_ms, key, value, list(headers)) is None:
                raise MessageTooLarge(builder.size(), BATCH_BYTES_MAX)
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidRecord(f"a record cannot be written: {error}") from error
    return memoryview(builder.build())[HEADER_BYTES:]


def _build(template: BatchHeader, section: Buffer, *, packed: bool = False) -> bytes:
    if template.codec and not packed:
        section = compress(template.codec, section)
    try:
        batch = bytearray(_HEADER.pack(*template._replace(length=HEADER_BYTES - 12 + len(section), magic=MAGIC, crc=0)))
    except struct_error as error:
        raise InvalidRecord(f"a batch header cannot hold its values: {error}") from error
    batch += section
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return bytes(batch)
