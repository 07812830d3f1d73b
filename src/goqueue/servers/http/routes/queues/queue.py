"""Queues over HTTP: take messages with receipts, and settle them one by one or a thousand at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET

from goqueue.delivery.settlement.outcomes import REJECTED, RETRIES_EXHAUSTED
from goqueue.delivery.values import Action, Receive, Settlement, SettleResult
from goqueue.errors import InvalidRequest, wire_of
from goqueue.servers.http.adapter import detail_of
from goqueue.servers.http.bodies.durations import parse_duration_ms, parse_visibility_ms
from goqueue.servers.http.bodies.large_answers import MessagesReply, size_of
from goqueue.servers.http.bodies.message_json import queued_message
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.queues import (
    AckBody,
    NackBody,
    ReceiveBody,
    Received,
    RejectBody,
    SettledReceipt,
    SettledReceipts,
    VisibilityBody,
)
from goqueue.servers.named_partitions import places_of
from goqueue.servers.services import Services

# A retry may wait as long as a message may be kept.
_DELAY_MS_MAX = 365 * 24 * 3_600_000

MakeSettlement = Callable[[str], Settlement]


async def receive(services: Services, call: Call) -> MessagesReply:
    """Receive messages of a topic, without joining a group."""
    body: ReceiveBody = call.body
    await services.answers.room()
    messages = await services.delivery.receive(
        Receive(
            group=body.group,
            consumer=body.client_id,
            places=places_of(services, call.path["topic"], body.partition),
            limit=body.limit,
            max_bytes=body.max_bytes,
            wait_ms=parse_duration_ms(body.wait, "wait", maximum_ms=services.config.http.wait_ms_max),
            visibility_ms=parse_visibility_ms(body.visibility),
        )
    )
    always = body.encoding == "base64"
    shown = (queued_message(one, base64_always=always) for one in messages)
    return MessagesReply(Received(messages=[], group=body.group, count=len(messages)), shown, size_of(messages))


async def ack(services: Services, call: Call) -> SettledReceipt | SettledReceipts | Answer:
    """Acknowledge messages."""
    return await _settle(services, call.body, lambda receipt: Settlement(receipt, Action.ACK))


async def nack(services: Services, call: Call) -> SettledReceipt | SettledReceipts | Answer:
    """Redeliver messages that could not be processed."""
    body: NackBody = call.body
    delay_ms = None if body.delay is None else parse_duration_ms(body.delay, "delay", maximum_ms=_DELAY_MS_MAX)
    error = failure_text(body.error, body.reason)
    return await _settle(
        services, body, lambda receipt: Settlement(receipt, Action.NACK, delay_ms=delay_ms, reason=error)
    )


async def reject(services: Services, call: Call) -> SettledReceipt | SettledReceipts | Answer:
    """Send messages to the dead letters."""
    body: RejectBody = call.body
    error = failure_text(body.error, body.reason)
    if body.error is None and body.reason is None:
        raise InvalidRequest(
            "there is no error", field="error", hint='say what is wrong: {"error": "no such customer"}'
        )
    return await _settle(services, body, lambda receipt: Settlement(receipt, Action.REJECT, reason=error))


async def extend(services: Services, call: Call) -> SettledReceipt | SettledReceipts | Answer:
    """Extend the visibility of messages, or release them."""
    body: VisibilityBody = call.body
    if (body.extension_seconds is None) == (body.visibility is None):
        raise InvalidRequest(
            "say how much more time, once", field="extension_seconds", hint="give extension_seconds or visibility"
        )
    visibility_ms = (
        parse_visibility_ms(body.visibility) if body.extension_seconds is None else body.extension_seconds * 1000
    )
    if visibility_ms == 0:
        return await _settle(services, body, lambda receipt: Settlement(receipt, Action.RELEASE))
    return await _settle(
        services, body, lambda receipt: Settlement(receipt, Action.EXTEND, visibility_ms=visibility_ms)
    )


def failure_text(error: str | None, reason: str | None) -> str:
    """What went wrong, by whichever of its two names it was sent."""
    if error is not None and reason is not None and error != reason:
        raise InvalidRequest("error and reason are two names for one text", field="reason", hint="send error alone")
    return error or reason or ""


async def _settle(services: Services, body: AckBody, make: MakeSettlement) -> SettledReceipt | SettledReceipts | Answer:
    """One receipt answers for itself; of several, each has a result, and 207 says that some failed."""
    if body.receipts is UNSET:
        if body.receipt_handle is UNSET:
            raise InvalidRequest(
                "there is no receipt", field="receipt_handle", hint="send receipt_handle, or receipts with several"
            )
        (settled,) = await services.delivery.settle([make(body.receipt_handle)], durable=body.durable)
        if settled.error is not None:
            raise settled.error
        result = _result(settled, body, services.clock.now_ms())
        result.committed_offset, result.in_flight_count = settled.committed_offset, settled.in_flight
        result.offset_advanced = settled.committed_offset > settled.offset
        return result
    if body.receipt_handle is not UNSET:
        raise InvalidRequest(
            "receipt_handle and receipts exclude each other", field="receipts", hint="send one of the two"
        )
    settlements = [make(receipt) for receipt in body.receipts]
    return _answer(await services.delivery.settle(settlements, durable=body.durable), body, services.clock.now_ms())


def _answer(settled: Sequence[SettleResult], body: AckBody, now_ms: int) -> SettledReceipts | Answer:
    results = [_result(one, body, now_ms, index) for index, one in enumerate(settled)]
    failed = sum([one.error is not None for one in settled])
    reply = SettledReceipts(results=results, succeeded=len(results) - failed, failed=failed)
    return Answer(207, reply) if failed else reply


def _result(one: SettleResult, body: AckBody, now_ms: int, index: int = 0) -> SettledReceipt:
    receipt, topic, partition, offset, taken, count, next_visible_ms, dlq_topic, _, _, error = one
    if error is not None:
        detail = detail_of(error, f"receipts[{index}]" if error.field == "receipt_handle" else error.field)
        return SettledReceipt(success=False, receipt_handle=receipt, error=detail, status=wire_of(error).http)
    result = SettledReceipt(
        success=True,
        receipt_handle=receipt,
        action=taken,
        topic=topic,
        partition=partition,
        offset=offset,
        delivery_count=count,
    )
    if taken == "acked":
        # Nearly all are, and nothing more is to be said of them.
        return result
    if next_visible_ms is not None:
        if isinstance(body, VisibilityBody):
            result.new_deadline, result.extended_by = next_visible_ms, max(0, next_visible_ms - now_ms)
        else:
            result.next_visible_at = next_visible_ms
    if dlq_topic is not None:
        result.dlq_topic = dlq_topic
        result.reason = REJECTED if isinstance(body, RejectBody) else RETRIES_EXHAUSTED
    return result


_SETTLED = {200: SettledReceipt | SettledReceipts, 207: SettledReceipts}
_REFUSALS = (400, 404, 409, 410, 503, 507)

ROUTES = (
    Route(
        "POST",
        "/topics/{topic}/receive",
        receive,
        "Receive messages with receipts",
        {200: Received},
        body=ReceiveBody,
        body_optional=True,
        errors=(400, 403, 404, 409, 429, 503, 507),
    ),
    Route("POST", "/messages/ack", ack, "Acknowledge messages", _SETTLED, body=AckBody, errors=_REFUSALS),
    Route("POST", "/messages/nack", nack, "Redeliver messages (nack)", _SETTLED, body=NackBody, errors=_REFUSALS),
    Route("POST", "/messages/reject", reject, "Reject messages", _SETTLED, body=RejectBody, errors=_REFUSALS),
    Route(
        "POST",
        "/messages/visibility",
        extend,
        "Extend or end the visibility timeout of messages",
        _SETTLED,
        body=VisibilityBody,
        errors=_REFUSALS,
    ),
)
