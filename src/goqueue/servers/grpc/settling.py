"""Receiving and settling, for the unary methods and the work stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goqueue.delivery.settlement.outcomes import REJECTED, RETRIES_EXHAUSTED
from goqueue.delivery.values import Action, Receive, Settlement, SettleResult
from goqueue.errors import InvalidRequest
from goqueue.protos import common_pb2, queue_pb2
from goqueue.servers.grpc.refusals import detail_of
from goqueue.servers.grpc.values import duration_ms, queued_message
from goqueue.servers.named_partitions import places_of
from goqueue.servers.services import Services

# SQS's longest; whoever needs more asks for more while it works.
VISIBILITY_MS_MAX = 12 * 3_600_000
# A retry may wait as long as a message may be kept.
_DELAY_MS_MAX = 365 * 24 * 3_600_000
_ERROR_CHARS_MAX = 1024
# Less than what a stock client takes in one message.
BYTES_MAX = 3 * 1024 * 1024
_ACTIONS = {
    common_pb2.SETTLE_ACTION_UNSPECIFIED: Action.ACK,
    common_pb2.SETTLE_ACTION_ACK: Action.ACK,
    common_pb2.SETTLE_ACTION_NACK: Action.NACK,
    common_pb2.SETTLE_ACTION_REJECT: Action.REJECT,
    common_pb2.SETTLE_ACTION_EXTEND: Action.EXTEND,
    common_pb2.SETTLE_ACTION_RELEASE: Action.RELEASE,
}


async def receive(services: Services, request: Any, context: Any) -> Any:
    """Take messages once."""
    asked = receive_of(
        services,
        request,
        consumer=request.client_id or "grpc",
        limit=request.limit if request.HasField("limit") else 10,
        wait_ms=duration_ms(request, "wait", maximum_ms=services.config.http.wait_ms_max) or 0,
        max_bytes=BYTES_MAX,
    )
    await services.answers.room()
    found = await services.delivery.receive(asked)
    if found:
        await _return_if_gone(services, context, [one.receipt for one in found])
    return queue_pb2.ReceiveResponse(messages=[queued_message(one) for one in found])


async def batch_ack(services: Services, request: Any, _context: Any) -> Any:
    """Settle messages in different ways."""
    if not request.settlements:
        raise InvalidRequest("there are no settlements", field="settlements")
    wanted = [settlement_of(one, f"settlements[{at}]") for at, one in enumerate(request.settlements)]
    check_count(services, len(wanted), "settlements")
    settled = await services.delivery.settle(wanted, durable=request.durable)
    failed = sum([one.error is not None for one in settled])
    return queue_pb2.BatchAckResponse(
        results=[
            settled_receipt(one, asked, f"settlements[{at}].receipt_handle")
            for at, (one, asked) in enumerate(zip(settled, wanted, strict=True))
        ],
        succeeded=len(settled) - failed,
        failed=failed,
    )


def receive_of(services: Services, request: Any, *, consumer: str, limit: int, wait_ms: int, max_bytes: int) -> Receive:
    """What a request asks to take."""
    if not 1 <= limit <= services.config.delivery.receive_max:
        raise InvalidRequest(
            f"limit {limit} is not from 1 to {services.config.delivery.receive_max}",
            field="limit",
            hint="raise delivery.receive_max, or receive more often",
        )
    if request.HasField("max_bytes"):
        if request.max_bytes < 1:
            raise InvalidRequest("max_bytes must be at least 1", field="max_bytes")
        max_bytes = min(request.max_bytes, services.config.grpc.message_bytes_max)
    return Receive(
        group=request.group or "default",
        consumer=consumer,
        places=places_of(services, request.topic, request.partition if request.HasField("partition") else None),
        limit=limit,
        max_bytes=max_bytes,
        wait_ms=wait_ms,
        visibility_ms=duration_ms(request, "visibility", maximum_ms=VISIBILITY_MS_MAX),
    )


def settlement_of(asked: Any, place: str) -> Settlement:
    """What a client says about one receipt; `place` is where it says so."""
    action = _ACTIONS.get(asked.action)
    if action is None:
        raise InvalidRequest(f"action {asked.action} is not known", field=f"{place}.action")
    if len(asked.error) > _ERROR_CHARS_MAX:
        raise InvalidRequest(f"error is longer than {_ERROR_CHARS_MAX} characters", field=f"{place}.error")
    if action is Action.REJECT and not asked.error:
        raise InvalidRequest("there is no error", field=f"{place}.error", hint="say why the message cannot succeed")
    visibility_ms = None
    if action is Action.EXTEND:
        visibility_ms = duration_ms(asked, "visibility", maximum_ms=VISIBILITY_MS_MAX)
        if visibility_ms == 0:
            action, visibility_ms = Action.RELEASE, None
    delay_ms = duration_ms(asked, "delay", maximum_ms=_DELAY_MS_MAX) if action is Action.NACK else None
    return Settlement(asked.receipt_handle, action, delay_ms, asked.error, visibility_ms)


def settled_receipt(one: SettleResult, asked: Settlement, field: str) -> Any:
    """What became of one receipt."""
    receipt, topic, partition, offset, taken, count, next_visible_ms, dlq_topic, committed, in_flight, error = one
    if error is not None:
        named = field if error.field == "receipt_handle" else error.field
        return queue_pb2.SettledReceipt(success=False, receipt_handle=receipt, error=detail_of(error, named))
    result = queue_pb2.SettledReceipt(
        success=True,
        receipt_handle=receipt,
        action=taken,
        topic=topic,
        partition=partition,
        offset=offset,
        delivery_count=count,
        committed_offset=committed,
        offset_advanced=committed > offset,
        in_flight_count=in_flight,
    )
    if next_visible_ms is not None:
        if asked.action is Action.EXTEND:
            result.new_deadline_ms = next_visible_ms
        else:
            result.next_visible_at_ms = next_visible_ms
    if dlq_topic is not None:
        result.dlq_topic = dlq_topic
        result.reason = REJECTED if asked.action is Action.REJECT else RETRIES_EXHAUSTED
    return result


def check_count(services: Services, count: int, field: str) -> None:
    """As many receipts in one request as HTTP takes."""
    most = services.config.delivery.receive_max
    if count > most:
        raise InvalidRequest(f"{count} receipts in one request, at most {most}", field=field, hint="send several")


async def give_back(services: Services, receipts: Sequence[str]) -> None:
    """Return messages to their queue at once; what is settled or expired meanwhile is left alone."""
    step = services.config.delivery.receive_max
    for at in range(0, len(receipts), step):
        await services.delivery.settle([Settlement(one, Action.RELEASE) for one in receipts[at : at + step]])


async def _return_if_gone(services: Services, context: Any, receipts: Sequence[str]) -> None:
    """A client that is gone by the time its messages are found does not keep them until their time is up."""
    if context.done():
        await give_back(services, receipts)
