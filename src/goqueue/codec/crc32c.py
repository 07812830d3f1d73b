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


def crc32c(data: Buffer, value: int = 0) -> int:
    """Checksum of `data`, continuing from `value`. Takes any buffer without copying it."""
    return _crc32c(data, value)


def followed_by(first: int, second: int, second_bytes: int) -> int:
    """Checksum of two pieces of bytes, one behind the other, of which only the checksums are known.

    Bytes behind it multiply a checksum by a power of x, whatever they are; what they are is then added to it.
    """
    digit = 0
    while second_bytes:
        if second_bytes & 0xFF:
            first = _times(first, _behind(second_bytes & 0xFF, digit))
        second_bytes >>= 8
        digit += 1
    return first ^ second


@cache
def _behind(count: int, digit: int) -> tuple[int, ...]:
    """What `count` * 256 ** `digit` bytes behind it do to each bit of a checksum, the highest first."""
    power = _power(count, digit)
    bits = []
    for _ in range(32):
        bits.append(power)
        power = (power >> 1) ^ _POLYNOMIAL if power & 1 else power >> 1
    return tuple(bits)


def _power(count: int, digit: int) -> int:
    power, base = _ONE, 1 << (31 - 8)
    for _ in range(8 * digit):
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


def _times(value: int, bits: tuple[int, ...]) -> int:
    product = 0
    mask = _ONE
    for bit in bits:
        if value & mask:
            product ^= bit
        mask >>= 1
    return product
