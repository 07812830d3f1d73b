"""Publishing: one message or many, with a result for each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from goqueue.broker.arrivals.record_publishing import Published as Outcome
from goqueue.errors import GoQueueError, InvalidRequest, wire_of
from goqueue.records import Acks, NewRecord
from goqueue.servers.http.adapter import detail_of
from goqueue.servers.http.bodies.message_json import record_of
from goqueue.servers.http.bodies.times import format_time
from goqueue.servers.http.held import dues_in_transaction, field_of_message, has_delay, hold
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.trace_headers import add_trace
from goqueue.servers.http.types.common import (
    InitProducer,
    MessageIn,
    ProducerIdentity,
    Publish,
    Published,
    PublishResult,
)
from goqueue.servers.publishing import (
    Incoming,
    Sequenced,
    acks_unless_named,
    check_deduplication,
    one_partition,
    publish_each,
    publish_sequenced,
    reach_of,
)
from goqueue.servers.services import Services

_ACKS = {"none": Acks.NONE, "leader": Acks.LEADER, "all": Acks.ALL}
_NAMES = {acks: name for name, acks in _ACKS.items()}


async def publish(services: Services, call: Call) -> Published | Answer:
    """Publish messages."""
    topic, body = call.path["topic"], call.body
    messages = _messages(body)
    if services.caller.trace:
        add_trace(messages, services.caller.trace)
    await services.topics.ensure(topic)
    _check_deduplication(services, topic, body, messages)
    if body.producer_id is not None:
        outcomes = await _publish_once(services, topic, body, messages, body.producer_id)
    elif has_delay(messages, body):
        return await _publish_some_later(services, topic, body, messages)
    else:
        outcomes = await _publish_plain(services, topic, body, messages, is_alone=len(messages) == 1)
    return _with_reach(services, topic, _answer(outcomes, _NAMES[_acks(services, body)], messages))


def _with_reach(services: Services, topic: str, answer: Published | Answer) -> Published | Answer:
    """Say how far an acknowledged write got: on how many replicas, and whether they synced it."""
    reply: Published = answer.body if isinstance(answer, Answer) else answer
    if reply.acks == "all" and reply.count:
        # What is delayed, or was refused, has no partition.
        written = {one.partition for one in reply.results if isinstance(one.partition, int) and one.partition >= 0}
        reach = reach_of(services, topic, written)
        if reach is not None:
            reply.durability, reply.replicas = reach
    return answer


async def _publish_some_later(
    services: Services, topic: str, body: Publish, messages: Sequence[MessageIn | Publish]
) -> Published | Answer:
    """Hold back what is due later and publish the rest; results in the order sent."""
    results = await hold(services, topic, body, messages, lambda index: _record(messages, index))
    now = [index for index in range(len(messages)) if index not in results]
    if now:
        rest = [messages[index] for index in now]
        outcomes = await _publish_plain(services, topic, body, rest, is_alone=len(messages) == 1)
        if len(outcomes) == len(messages) == 1 and outcomes[0].error is not None:
            raise _placed(outcomes[0].error, messages[0])
        results |= {
            index: _result(outcome, messages[index], index) for index, outcome in zip(now, outcomes, strict=True)
        }
    ordered = [results[index] for index in range(len(messages))]
    failed = [one.status for one in ordered if isinstance(one.status, int)]
    stored = Published(
        results=ordered, acks=_NAMES[_acks(services, body)] if now else "all", count=len(ordered) - len(failed)
    )
    if not failed:
        return stored
    return Answer(207 if stored.count else failed[0], stored)


async def init_producer(services: Services, call: Call) -> ProducerIdentity:
    """Get an id under which retries are recognised."""
    name, timeout_ms = call.body.transactional_id, call.body.transaction_timeout_ms
    if name is not None:
        producer = await services.transactions.init_producer(name, timeout_ms=timeout_ms)
        services.transactions.heard(name, producer)
        return ProducerIdentity(
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            heartbeat_interval_ms=services.config.transactions.heartbeat_interval_ms,
            session_timeout_ms=services.config.transactions.session_timeout_ms,
        )
    return ProducerIdentity(producer_id=await services.producer_ids.allocate_plain(), epoch=0)


def _messages(body: Publish) -> Sequence[MessageIn | Publish]:
    if body.messages is UNSET:
        if body.value is UNSET:
            raise InvalidRequest(
                "the body has neither a value nor messages",
                field="value",
                hint='send {"value": ...} or {"messages": [{"value": ...}]}',
            )
        return [body]
    if body.value is not UNSET or body.key is not None or body.headers is not None or body.timestamp is not None:
        raise InvalidRequest(
            "the body has both messages and a message of its own",
            field="messages",
            hint="put key, value, headers and timestamp into each of the messages",
        )
    return body.messages


def _check_deduplication(
    services: Services, topic: str, body: Publish, messages: Sequence[MessageIn | Publish]
) -> None:
    """An id that would be ignored is refused: whoever sends one counts on it."""
    first = next((at for at, message in enumerate(messages) if message.deduplication_id is not None), None)
    if first is None:
        return
    field = "deduplication_id" if isinstance(messages[first], Publish) else f"messages[{first}].deduplication_id"
    check_deduplication(services, topic, field, is_sequenced=body.producer_id is not None)


async def _publish_plain(
    services: Services, topic: str, body: Publish, messages: Sequence[MessageIn | Publish], *, is_alone: bool
) -> list[Outcome]:
    """Group by the partition named, publish each group, and put the results back into the order sent.

    A message that is alone in its request is refused with it; any other has a result of its own.
    """
    if is_alone:
        chosen = messages[0].partition if messages[0].partition is not None else body.partition
        records = [_record(messages, 0)]
        try:
            return await services.publish.publish_records(topic, records, acks=_acks(services, body), partition=chosen)
        except GoQueueError as error:
            raise _placed(error, messages[0]) from None
    wanted: list[Incoming | GoQueueError] = []
    for message in messages:
        try:
            record = record_of(message)
        except InvalidRequest as error:
            wanted.append(error)
            continue
        wanted.append(Incoming(record, message.partition if message.partition is not None else body.partition))
    return await publish_each(services, topic, wanted, _acks(services, body))


async def _publish_once(
    services: Services, topic: str, body: Publish, messages: Sequence[MessageIn | Publish], producer_id: int
) -> list[Outcome]:
    """Publish under a producer's sequence: one batch in one partition, or nothing."""
    if body.producer_epoch is None or body.sequence is None:
        missing = "producer_epoch" if body.producer_epoch is None else "sequence"
        raise InvalidRequest(f"producer_id needs {missing} beside it", field=missing)
    chosen = one_partition({m.partition if m.partition is not None else body.partition for m in messages})
    records = [_record(messages, index) for index in range(len(messages))]
    sequenced = Sequenced(producer_id, body.producer_epoch, body.sequence, body.transaction_id)
    dues = dues_in_transaction(services, body, messages)
    return await publish_sequenced(
        services, topic, chosen, records, acks=_acks(services, body), sequenced=sequenced, dues=dues
    )


def _acks(services: Services, body: Publish) -> Acks:
    return acks_unless_named(services) if body.acks is None else _ACKS[body.acks]


def _record(messages: Sequence[MessageIn | Publish], index: int) -> NewRecord:
    try:
        return record_of(messages[index])
    except InvalidRequest as error:
        if isinstance(messages[index], MessageIn):
            error.field = f"messages[{index}].{error.field}"
        raise


def _answer(outcomes: list[Outcome], acks: str, messages: Sequence[MessageIn | Publish]) -> Published | Answer:
    """200 when all are stored, 207 when some are, the first error's own status when none is."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not failed:
        duplicate = any(outcome.duplicate for outcome in outcomes)
        if duplicate or any(outcome.due_ms is not None for outcome in outcomes):
            stored = [_result(outcome, messages[0], 0) for outcome in outcomes]
        else:
            stored = [PublishResult(partition=o.partition, offset=o.offset, timestamp=o.timestamp_ms) for o in outcomes]
        return Published(results=stored, acks=acks, count=len(stored), duplicate=duplicate)
    if len(failed) == len(outcomes) == 1:
        raise _placed(failed[0], messages[0])
    results = [_result(outcome, messages[index], index) for index, outcome in enumerate(outcomes)]
    status = wire_of(failed[0]).http if len(failed) == len(outcomes) else 207
    return Answer(status, Published(results=results, acks=acks, count=len(outcomes) - len(failed)))


def _placed(error: GoQueueError, message: MessageIn | Publish) -> GoQueueError:
    """The error of the only message, its field named as the sender wrote it."""
    error.field = field_of_message(error, message, 0)
    return error


def _result(outcome: Outcome, message: MessageIn | Publish, index: int) -> PublishResult:
    error: GoQueueError | None = outcome.error
    if outcome.due_ms is not None:
        return PublishResult(
            duplicate=outcome.duplicate,
            delayed=True,
            slot=f"{outcome.partition}/{outcome.offset}",
            deliverAt=format_time(outcome.due_ms),
        )
    if error is None:
        return PublishResult(
            partition=outcome.partition,
            offset=outcome.offset,
            timestamp=outcome.timestamp_ms,
            duplicate=outcome.duplicate,
        )
    detail = detail_of(error, field_of_message(error, message, index))
    return PublishResult(error=detail, status=wire_of(error).http)


ROUTES = (
    Route(
        "POST",
        "/topics/{topic}/messages",
        publish,
        "Publish messages",
        {200: Published, 207: Published},
        body=Publish,
        errors=(400, 403, 404, 409, 413, 429, 503, 507),
    ),
    Route(
        "POST",
        "/producers/init",
        init_producer,
        "Get a producer id",
        {200: ProducerIdentity},
        body=InitProducer,
        body_optional=True,
        errors=(400, 409, 503, 507),
    ),
)
