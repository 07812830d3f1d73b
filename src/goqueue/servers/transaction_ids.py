"""The name of one transaction for callers of HTTP and gRPC: `txn-<start, ns>-<producer><number>`, in hexadecimal."""

from __future__ import annotations

import re

from goqueue.errors import InvalidRequest
from goqueue.transactions.commands import Described

_PATTERN = re.compile(r"txn-[0-9]{1,19}-([0-9a-f]{8})([0-9a-f]{8})")
_MASK = 0xFFFF_FFFF


def transaction_id(one: Described) -> str:
    """The name of the transaction that the id has open, or had last."""
    return f"txn-{one.started_ms * 1_000_000}-{one.producer_id & _MASK:08x}{one.number & _MASK:08x}"


def number_of(text: str | None, producer_id: int) -> int | None:
    """Which transaction of its producer it is; None if the caller does not say."""
    if text is None:
        return None
    matched = _PATTERN.fullmatch(text)
    if matched is None or int(matched[1], 16) != producer_id & _MASK:
        raise InvalidRequest(
            f"{text[:80]!r} is not a transaction of producer {producer_id}",
            field="transaction_id",
            hint="send what the begin of the transaction answered",
        )
    return int(matched[2], 16)
