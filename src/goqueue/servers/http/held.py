"""Publishing with a delay: which of the messages sent are held back, and what their senders are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goqueue.delay.values import Held, SlotId
from goqueue.errors import GoQueueError, InvalidRequest, wire_of
from goqueue.records import NewRecord
from goqueue.servers.http.adapter import detail_of
from goqueue.servers.http.bodies.times import due_of, format_time
from goqueue.servers.http.types.common import MessageIn, Publish, PublishResult
from goqueue.servers.services import Services

_OF_A_MESSAGE = frozenset(MessageIn.__struct_encode_fields__)

MakeRecord = Callable[[int], NewRecord]


def has_delay(messages: Sequence[MessageIn | Publish], body: Publish) -> bool:
    """Whether any message may have to wait."""
    if body.delay is not None or body.deliverAt is not None:
        return True
    return any(one.delay is not None or one.deliverAt is not None for one in messages)


async def hold(
    services: Services,
    topic: str,
    body: Publish,
    messages: Sequence[MessageIn | Publish],
    make_record: MakeRecord,
) -> dict[int, PublishResult]:
    """Hold back what is due later; returns the results of those messages, by position.

    A message whose time has come already is left out: it is published like any other.
    """
    now_ms = services.clock.now_ms()
    results: dict[int, PublishResult] = {}
    held: dict[int, Held] = {}
    for index, message in enumerate(messages):
        try:
            one = _held(body, message, make_record, index, now_ms)
        except InvalidRequest as error:
            results[index] = failure(_placed(error, message, index))
            if len(messages) == 1:
                raise
        else:
            if one is not None:
                held[index] = one
    if held:
        outcomes = await services.delay.hold(topic, list(held.values()))
        for (index, one), outcome in zip(held.items(), outcomes, strict=True):
            if isinstance(outcome, SlotId):
                results[index] = PublishResult(
                    delayed=True,
                    slot=str(outcome),
                    deliverAt=format_time(one.due_ms),
                )
            elif len(messages) == 1:
                raise _placed(outcome, messages[index], index)
            else:
                results[index] = failure(_placed(outcome, messages[index], index))
    return results


def dues_in_transaction(
    services: Services, body: Publish, messages: Sequence[MessageIn | Publish]
) -> list[int | None] | None:
    """For when each message of a transaction is; None if all are for now."""
    if not has_delay(messages, body):
        return None
    now_ms = services.clock.now_ms()
    dues: list[int | None] = []
    for index, message in enumerate(messages):
        try:
            dues.append(_due(body, message, now_ms))
        except InvalidRequest as error:
            raise _placed(error, message, index) from None
    return dues


def failure(error: GoQueueError) -> PublishResult:
    """The result of a message that was refused."""
    return PublishResult(error=detail_of(error, error.field), status=wire_of(error).http)


def _placed(error: GoQueueError, message: MessageIn | Publish, index: int) -> GoQueueError:
    """The error, its field named as the sender sees it."""
    error.field = field_of_message(error, message, index)
    return error


def field_of_message(error: GoQueueError, message: MessageIn | Publish, index: int) -> str | None:
    """What an error about one message blames: a field of that message if it has one of that name."""
    field = error.field
    if field is None or not isinstance(message, MessageIn) or field not in _OF_A_MESSAGE:
        return field
    if field == "partition" and message.partition is None:
        return field
    return f"messages[{index}].{field}"


def _held(body: Publish, message: MessageIn | Publish, make_record: MakeRecord, index: int, now_ms: int) -> Held | None:
    due_ms = _due(body, message, now_ms)
    if due_ms is None or due_ms <= now_ms:
        return None
    partition = message.partition if message.partition is not None else body.partition
    return Held(make_record(index), due_ms, partition)


def _due(body: Publish, message: MessageIn | Publish, now_ms: int) -> int | None:
    """When a message is due; refuses what cannot be held back."""
    delay, deliver_at = message.delay, message.deliverAt
    if delay is None and deliver_at is None:
        delay, deliver_at = body.delay, body.deliverAt
    due_ms = due_of(delay, deliver_at, now_ms)
    if due_ms is None or due_ms <= now_ms:
        return due_ms
    if message.timestamp is not None:
        raise InvalidRequest(
            "a delayed message is stamped when it is delivered",
            field="timestamp",
            hint="leave the timestamp out, or put it into a header",
        )
    return due_ms
