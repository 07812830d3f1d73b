"""Receipts: `topic:partition:offset:deliveryCount:nonce`, new for every delivery.

They are parsed from the right. The nonce names the lease and ends in a checksum over it and the
topic: what was never given out can be told from what is over, without remembering either.
Receipts of earlier versions have a number and a dot before the lease, which say nothing any more.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import mmh3

from goqueue.errors import InvalidReceipt

_LEASE_DIGITS = 16
_CHECK_DIGITS = 8
_OFFSET_DIGITS = 19
_PARTITION_DIGITS = 10
_PARTS = 4
_HEX = frozenset("0123456789abcdef")


class Nonce(NamedTuple):
    """What a nonce says."""

    lease_id: int
    check: int


def receipt_parts(topic: str, partition: int, topic_id: UUID, lease_id: int, count: int) -> tuple[str, str]:
    """What stands before and behind the offset in all receipts of one lease."""
    check = _check(topic_id, partition, lease_id)
    return f"{topic}:{partition}:", f":{count}:{lease_id:016x}{check:08x}"


def split_receipt(receipt: str) -> tuple[str, int, int, str]:
    """(topic:partition, offset, delivery count, nonce), or InvalidReceipt."""
    parts = receipt.rsplit(":", 3)
    if len(parts) != _PARTS:
        raise InvalidReceipt(receipt)
    place, offset, count, nonce = parts
    if not (
        offset.isdecimal()
        and count.isdecimal()
        and offset.isascii()
        and count.isascii()
        and len(offset) <= _OFFSET_DIGITS
    ):
        raise InvalidReceipt(receipt)
    return place, int(offset), int(count[:10]), nonce


def split_place(place: str, receipt: str) -> tuple[str, int]:
    """The topic and the partition of a receipt."""
    topic, colon, partition = place.rpartition(":")
    if not (colon and topic and partition.isdecimal() and partition.isascii() and len(partition) <= _PARTITION_DIGITS):
        raise InvalidReceipt(receipt)
    return topic, int(partition)


def parse_nonce(nonce: str, receipt: str) -> Nonce:
    """What the nonce of a receipt says."""
    former, dot, rest = nonce.rpartition(".")
    if len(rest) != _LEASE_DIGITS + _CHECK_DIGITS or (dot and not 0 < len(former) <= _CHECK_DIGITS):
        raise InvalidReceipt(receipt)
    if not _HEX.issuperset(former) or not _HEX.issuperset(rest):
        raise InvalidReceipt(receipt)
    return Nonce(int(rest[:_LEASE_DIGITS], 16), int(rest[_LEASE_DIGITS:], 16))


def is_ours(nonce: Nonce, topic_id: UUID, partition: int) -> bool:
    """Whether a lease of that topic and partition was ever given this nonce."""
    return nonce.check == _check(topic_id, partition, nonce.lease_id)


def _check(topic_id: UUID, partition: int, lease_id: int) -> int:
    return int(mmh3.hash(f"{topic_id.hex}{partition}:{lease_id:x}", signed=False))
