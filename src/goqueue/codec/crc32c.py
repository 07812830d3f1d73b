"""CRC-32C (Castagnoli), the checksum of frames and of Kafka's record batches.

`zlib.crc32` is another polynomial; nothing may use it for stored bytes.
"""

from __future__ import annotations

from functools import cache

from crc32c import crc32c as _crc32c

from goqueue.ports import Buffer

# The polynomial and the number one, with the lowest power in the highest bit, as the checksum has its own.
_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31

# Up to as many bytes it is cheapest to look at zeros in their place.
_FEW_BITS = 12
_FEW = (1 << _FEW_BITS) - 1
_ZEROS = memoryview(bytes(_FEW))


def crc32c(data: Buffer, value: int = 0) -> int:
    """Checksum of `data`, continuing from `value`. Takes any buffer without copying it."""
    return _crc32c(data, value)


def followed_by(first: int, second: int, second_bytes: int) -> int:
    """Checksum of two pieces of bytes, one behind the other, of which only the checksums are known.

    Bytes behind it multiply a checksum by a power of x, whatever they are; what they are is then added to it.
    """
    few = second_bytes & _FEW
    if few:
        first = _crc32c(_ZEROS[:few], first) ^ _zeros_crc(few)
    many = second_bytes >> _FEW_BITS
    digit = 0
    while many:
        if many & 0xF:
            first = _times(first, _behind(many & 0xF, digit))
        many >>= 4
        digit += 1
    return first ^ second


@cache
def _zeros_crc(count: int) -> int:
    return _crc32c(_ZEROS[:count])


@cache
def _behind(count: int, digit: int) -> tuple[int, ...]:
    """What `count` * 16 ** `digit` * 4096 bytes behind it do to a checksum, four bits at a time, the lowest first."""
    power = _power(count, digit)
    table: list[int] = []
    for shift in range(0, 32, 4):
        table.extend(_multiplied(bits << shift, power) for bits in range(16))
    return tuple(table)


def _power(count: int, digit: int) -> int:
    power, base = _ONE, 1 << (31 - 8)
    for _ in range(_FEW_BITS + 4 * digit):
        base = _multiplied(base, base)
    while count:
        if count & 1:
            power = _multiplied(power, base)
        base = _multiplied(base, base)
        count >>= 1
    return power


def _multiplied(first: int, second: int) -> int:
    product = 0
    for shift in range(31, -1, -1):
        if first >> shift & 1:
            product ^= second
        second = (second >> 1) ^ _POLYNOMIAL if second & 1 else second >> 1
    return product


def _times(value: int, table: tuple[int, ...]) -> int:
    # One expression, because this runs for every large batch: a loop takes five times as long.
    return (
        table[value & 15]
        ^ table[16 | value >> 4 & 15]
        ^ table[32 | value >> 8 & 15]
        ^ table[48 | value >> 12 & 15]
        ^ table[64 | value >> 16 & 15]
        ^ table[80 | value >> 20 & 15]
        ^ table[96 | value >> 24 & 15]
        ^ table[112 | value >> 28]
    )
