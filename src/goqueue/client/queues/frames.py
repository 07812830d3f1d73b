"""Frames of a queue connection: MessagePack arrays of a kind, the request's id and what belongs to the kind.

Pure functions from and to bytes; the broker's side is `goqueue.servers.http.queue_frames`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.client.types import QueueMessage, Settled, SettleProblem

PATH = "/queue/connection"
PROTOCOL = "goqueue.queue.v1"
_LANES = ("critical", "high", "normal", "low", "background")
# The status of a receipt of which nothing was refused.
_OK = 200


# Offset, timestamp, key, value, headers and lane of a message.
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


class LeasedGroup(msgspec.Struct, array_like=True):
    """Messages of one lease, which have all of this in common."""

    topic: str
    partition: int
    delivery_count: int
    nonce: str
    visible_until_ms: int
    first_delivered_ms: int
    rows: list[Row]


class MessagesReply(msgspec.Struct, array_like=True, tag="messages"):
    """Messages that are ours from now on."""

    id: int
    generation: int
    groups: list[LeasedGroup]


class Outcome(msgspec.Struct, array_like=True, frozen=True):
    """What was done with the messages of one lease."""

    action: str
    next_visible_at: int | None
    dead_letter_topic: str | None
    refused: list[int]
    error: dict[str, Any] | None
    status: int


_NOTHING_YET = Outcome("", None, None, [], None, _OK)


class SettledReply(msgspec.Struct, array_like=True, tag="settled"):
    """One outcome for each lease of the request."""

    id: int
    outcomes: list[Outcome]


class ErrorReply(msgspec.Struct, array_like=True, tag="error"):
    """The request was refused."""

    id: int
    status: int
    detail: dict[str, Any]


Reply = MessagesReply | SettledReply | ErrorReply

_decoder: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
encode = msgspec.msgpack.Encoder().encode


def decode_reply(data: bytes) -> Reply:
    """The reply that a frame holds."""
    return _decoder.decode(data)


def messages_of(reply: MessagesReply, group: str) -> list[QueueMessage]:
    """The messages that the program gets, in the order of delivery."""
    return [
        QueueMessage(
            one.topic,
            one.partition,
            offset,
            timestamp_ms,
            key,
            value,
            headers,
            _LANES[lane],
            receipt=f"{one.topic}:{one.partition}:{offset}:{one.delivery_count}:{one.nonce}",
            delivery_count=one.delivery_count,
            visible_until_ms=one.visible_until_ms,
            group=group,
        )
        for one in reply.groups
        for offset, timestamp_ms, key, value, headers, lane in one.rows
    ]


class Leases:
    """Receipts by their lease: those of one lease differ in their offset alone. ValueError for what is no receipt."""

    def __init__(self, receipts: Sequence[str]) -> None:
        self._receipts = receipts
        # The lease and the offset of each receipt, and of each lease its number and its offsets.
        self._parsed: list[tuple[_Lease, int]] = []
        leases: dict[tuple[str, str, str], _Lease] = {}
        before = behind = "\0"
        lease: _Lease | None = None
        for receipt in receipts:
            # Receipts of one lease mostly come together.
            if lease is None or not (receipt.startswith(before) and receipt.endswith(behind)):
                place, _, count, nonce = receipt.rsplit(":", 3)
                lease = leases.get((place, count, nonce))
                if lease is None:
                    topic, _, partition = place.rpartition(":")
                    lease = leases[place, count, nonce] = _Lease(place, topic, int(partition), int(count), nonce, [])
                before, behind = f"{place}:", f":{count}:{nonce}"
            offset = int(receipt[len(before) : -len(behind)])
            lease.offsets.append(offset)
            self._parsed.append((lease, offset))
        self._leases = list(leases.values())

    def rows(self) -> list[tuple[str, int, str, list[int]]]:
        """As a frame has them."""
        return [(one.place, one.count, one.nonce, one.offsets) for one in self._leases]

    def results(self, outcomes: Sequence[Outcome], *, is_extension: bool) -> list[Settled]:
        """What became of each receipt, in the order in which they were given."""
        for lease, outcome in zip(self._leases, outcomes, strict=True):
            lease.outcome = outcome
        results = []
        for receipt, (lease, offset) in zip(self._receipts, self._parsed, strict=True):
            outcome = lease.outcome
            if outcome.status != _OK and (not outcome.refused or offset in outcome.refused):
                results.append(Settled(False, receipt, error=_named(lease, offset), status=outcome.status))
                continue
            until = outcome.next_visible_at
            results.append(
                Settled(
                    True,
                    receipt,
                    outcome.action,
                    lease.topic,
                    lease.partition,
                    offset,
                    lease.count,
                    None if is_extension else until,
                    until if is_extension else None,
                    outcome.dead_letter_topic,
                )
            )
        return results


class _Lease(msgspec.Struct, eq=False):
    place: str
    topic: str
    partition: int
    count: int
    nonce: str
    offsets: list[int]
    outcome: Outcome = _NOTHING_YET


def _named(lease: _Lease, offset: int) -> SettleProblem:
    """The error of one receipt: the broker names the first refused one of its lease."""
    error = dict(lease.outcome.error or {})
    if lease.outcome.refused:
        first = f"{lease.place}:{lease.outcome.refused[0]}:{lease.count}:{lease.nonce}"
        receipt = f"{lease.place}:{offset}:{lease.count}:{lease.nonce}"
        error["message"] = str(error.get("message", "")).replace(first, receipt)
    return msgspec.convert(error, SettleProblem)
