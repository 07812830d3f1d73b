"""Kafka's record batch, format 2: its header, and whether it is whole. The records stay closed.

    BaseOffset(8) Length(4) LeaderEpoch(4) Magic(1) CRC(4) Attributes(2)
    LastOffsetDelta(4) BaseTimestamp(8) MaxTimestamp(8) ProducerId(8)
    ProducerEpoch(2) BaseSequence(4) Count(4), then the records, packed or not

The CRC covers everything behind it, so base offset and leader epoch can be changed
without touching it.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from goqueue.codec.compression import Codec
from goqueue.errors import CorruptBatch, InvalidRecord, UnsupportedCompression, UnsupportedFormat
from goqueue.ports import Buffer
from goqueue.records import TimestampType

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
# The bytes that the broker rewrites when it gives a batch its place: up to the magic.
PREFIX_BYTES = 16
# The length counts the bytes behind itself, which is here.
LENGTH_END = 12
CRC_AT = 17
# From here on the checksum covers everything.
ATTRIBUTES_AT = 21
MAGIC = 2

# Length, attributes, timestamp delta, offset delta, key length, value length and header count: one byte each.
RECORD_BYTES_MIN = 7
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
        return self.length + LENGTH_END

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
    return _new_header(BatchHeader, HEADER.unpack_from(buffer, position))


def check_batch(buffer: Buffer) -> BatchHeader:
    """Check that `buffer` is exactly one batch that a client may send. The records stay closed."""
    header = verify_batch(buffer)
    attributes, count = header.attributes, header.count
    if count < 1 or header.last_offset_delta != count - 1:
        raise InvalidRecord(
            f"a batch of {count} records has last offset delta {header.last_offset_delta}",
            hint="the delta must be the count less one",
        )
    if attributes & CODEC_MASK > Codec.ZSTD:
        raise UnsupportedCompression(f"compression type {attributes & CODEC_MASK} is not known")
    if not has_room(header):
        raise InvalidRecord(
            f"a batch of {header.size} bytes claims {count} records, more than its bytes can hold",
            hint="the record count in the batch header is wrong",
        )
    if attributes & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if header.producer_id >= 0 and (
        header.producer_epoch < 0 or (header.base_sequence < 0 and not attributes & TRANSACTIONAL)
    ):
        # A coordinator's own batches in a transaction have no sequence: it does not send them twice.
        raise InvalidRecord("a batch with a producer id needs an epoch and a sequence")
    if attributes & TRANSACTIONAL and header.producer_id < 0:
        raise InvalidRecord("a transactional batch needs a producer id")
    return header


def has_room(header: BatchHeader) -> bool:
    """Whether so many records can lie in so few bytes, compressed or not. Nothing is opened for that."""
    section_bytes = header.length + LENGTH_END - HEADER_BYTES
    codec = header.attributes & CODEC_MASK
    if codec:
        section_bytes *= _RATIOS_MAX.get(codec, 1)
    return header.count * RECORD_BYTES_MIN <= section_bytes


def verify_batch(buffer: Buffer) -> BatchHeader:
    """Check format, length and checksum of one batch, whoever made it."""
    size = len(buffer)
    if size < HEADER_BYTES or buffer[PREFIX_BYTES] != MAGIC:
        if size > PREFIX_BYTES and buffer[PREFIX_BYTES] != MAGIC:
            raise UnsupportedFormat(f"message format {buffer[PREFIX_BYTES]} is not supported", hint="use format 2")
        raise CorruptBatch(f"a batch of {size} bytes is shorter than its header")
    header: BatchHeader = _new_header(BatchHeader, HEADER.unpack_from(buffer))
    if header.length + LENGTH_END != size:
        raise CorruptBatch(f"a batch of {size} bytes says that it has {header.length + LENGTH_END}")
    if crc32c(memoryview(buffer)[ATTRIBUTES_AT:]) != header.crc:
        raise CorruptBatch("the batch's checksum does not match")
    return header


def sound_batches(buffer: Buffer, before: int) -> tuple[list[int], int, int | None]:
    """Where the batches of `buffer` begin, up to one at offset `before`, each checked as `verify_batch` does.

    Also how many bytes they take, and the offset behind them: `before` if that was reached, None if there is no batch.
    Ends at a batch that is cut short.
    """
    view = memoryview(buffer)
    found: list[int] = []
    position, size, behind = 0, len(view), None
    while size - position >= HEADER_BYTES:
        base_offset, length, magic, crc, last_delta = _CHECKED.unpack_from(view, position)
        if magic != MAGIC:
            raise UnsupportedFormat(f"message format {magic} is not supported", hint="use format 2")
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatch(f"a batch claims {length + LENGTH_END} bytes")
        end = position + LENGTH_END + length
        if end > size:
            break
        if base_offset >= before:
            return found, position, before
        if crc32c(view[position + ATTRIBUTES_AT : end]) != crc:
            raise CorruptBatch("the batch's checksum does not match")
        found.append(position)
        position, behind = end, base_offset + last_delta + 1
        if behind >= before:
            break
    return found, position, behind


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
        end = position + LENGTH_END + length
        if length < HEADER_BYTES - LENGTH_END or end > size:
            raise CorruptBatch(f"a batch claims {length + LENGTH_END} bytes of the {size - position} left")
        batches.append(view[position:end])
        position = end
    return batches


def encode_prefix(base_offset: int, length: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch at its place in the log; `batch[16:]` follows unchanged."""
    return _PREFIX.pack(base_offset, length, leader_epoch)


# Bytes that one compressed byte can unpack to at most. deflate: 258 bytes for two bits. snappy: a copy of 64 bytes
# takes three. lz4: a byte lengthens a match by 255. zstd: a block of 128 KB that repeats one byte takes four.
_RATIOS_MAX = {Codec.GZIP.value: 1032, Codec.SNAPPY.value: 22, Codec.LZ4.value: 255, Codec.ZSTD.value: 32768}
_LENGTH = Struct(">i")
# The header without what `sound_batches` does not look at.
_CHECKED = Struct(">qi4xbI2xi8x8x8x2x4x4x")
_PREFIX = Struct(">qii")
# Skips the keyword handling of a NamedTuple's own constructor, which costs more than the parsing.
_new_header = tuple.__new__
