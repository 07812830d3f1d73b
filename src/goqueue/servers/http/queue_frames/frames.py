"""The frames of a queue connection: MessagePack arrays that begin with their kind and the request's id.

A request has one reply with the same id, in any order; a `cancel` has none. Durations are milliseconds. Replies:
`["messages", id, generation, [group, ...]]`, `["settled", id, [outcome, ...]]`, `["error", id, status, detail]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled
from goqueue.delivery.values import Action, Delivery
from goqueue.errors import InvalidRequest
from goqueue.servers.http.types.common import ErrorDetail

PROTOCOL = "goqueue.queue.v1"

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Limit = Annotated[int, Meta(ge=1, le=10_000)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**53)]
MaxBytes = Annotated[int, Meta(ge=1, le=52_428_800)]
FailureText = Annotated[str, Meta(max_length=1024)]


class Frame(msgspec.Struct, array_like=True, frozen=True):
    """A request; its id is the client's choice and in use until it is answered."""

    id: int


class ReceiveFrame(Frame, tag="receive", frozen=True):
    """Messages of a topic, without joining a group."""

    topic: Name
    group: Name
    client_id: Name
    limit: Limit
    wait_ms: Milliseconds = 0
    visibility_ms: Milliseconds | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None
    max_bytes: MaxBytes = 4 * 1024 * 1024


class PollFrame(Frame, tag="poll", frozen=True):
    """Messages for a member of a queue group."""

    group: Name
    member_id: Name
    generation: int
    limit: Limit
    wait_ms: Milliseconds = 0
    visibility_ms: Milliseconds | None = None
    max_bytes: MaxBytes = 4 * 1024 * 1024


class SettleFrame(Frame, tag="settle", frozen=True):
    """What to do with messages. A lease is `[topic:partition, delivery count, nonce, [offset, ...]]`."""

    action: Action
    leases: Annotated[list[LeasedOffsets], Meta(min_length=1, max_length=1000)]
    durable: bool = False
    delay_ms: Milliseconds | None = None
    error: FailureText = ""
    visibility_ms: Milliseconds | None = None


class CancelFrame(Frame, tag="cancel", frozen=True):
    """The client no longer wants the reply to this id."""


Request = ReceiveFrame | PollFrame | SettleFrame | CancelFrame

_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_encode = msgspec.msgpack.Encoder().encode


def decode_request(data: bytes) -> Request:
    """The request of a frame, or InvalidRequest."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise InvalidRequest(f"the frame is not valid: {problem}", field="frame") from problem


def encode_messages(request_id: int, generation: int, deliveries: Sequence[Delivery]) -> bytes:
    """A reply with messages in groups of one lease each, in the order of delivery.

    A group is `[topic, partition, delivery count, nonce, visible until, first delivered at, [message, ...]]`, a message
    `[offset, timestamp, key, value, headers, lane]`. Its receipt is `topic:partition:offset:count:nonce`.
    """
    groups: list[tuple[Any, ...]] = []
    behind = "\0"
    rows: list[Any] = []
    for one in deliveries:
        # A nonce is that of one lease, so that receipts with the same end have all but their offset in common.
        if not one[8].endswith(behind):
            topic, partition, *_, receipt, count, visible_at_ms, first_delivered_ms = one
            nonce = receipt.rpartition(":")[2]
            behind, rows = f":{count}:{nonce}", []
            groups.append((topic, partition, count, nonce, visible_at_ms, first_delivered_ms, rows))
        rows.append(one[2:8])
    return _encode(("messages", request_id, generation, groups))


def encode_settled(request_id: int, outcomes: Sequence[tuple[LeaseSettled, ErrorDetail | None, int]]) -> bytes:
    """A reply to a settlement, one row for each lease.

    A row has the action, the next visible time, the dead letter topic, the offsets that were refused, and the error and
    status of the refusal. The error names the first of the refused receipts; without offsets it is about all of them.
    """
    rows: list[Any] = [
        (one.action_taken, one.next_visible_ms, one.dead_letter_topic, one.refused, error, status)
        for one, error, status in outcomes
    ]
    return _encode(("settled", request_id, rows))


def encode_error(request_id: int, status: int, detail: ErrorDetail) -> bytes:
    """A request that was refused."""
    return _encode(("error", request_id, status, detail))
