"""Produce: closed batches into partitions.

Versions 3-13, by name and (13) by topic id; 0-2 carried the old message formats and are
refused, although they are advertised: librdkafka before 2.10 turns compression off
unless version 0 is listed (KAFKA-18659), so Kafka lists it too.
Every batch is written in the order of arrival, before this handler returns; only the
answer waits for the disk. There are three exceptions. A batch that makes its partition part of a
transaction waits until that is on the disk, and its producer's batches behind it wait too. A
batch whose records are checked against their schemas waits for that. One for a partition that is
not open yet, has no segment yet, or whose deduplication ids or delayed messages are not loaded yet,
waits until a thread has done that; all batches for that partition behind it wait too.
A batch refused because of some of its records names them from version 8 on (KIP-467).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from goqueue.broker.arrivals.arrival import NeedsCheck
from goqueue.broker.arrivals.publish import Pending
from goqueue.broker.replicas.opening import Awaited
from goqueue.errors import (
    CoordinatorUnavailable,
    GoQueueError,
    InvalidRecord,
    InvalidRequiredAcks,
    NotLeader,
    RecordRefusal,
    RequestTimedOut,
)
from goqueue.records import Acks, Appended
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.admitted import require_owners, waits_for
from goqueue.servers.kafka.api import Answer, Api, Context, Message, Order, Reply, failed
from goqueue.servers.kafka.leader_hints import current_leader, endpoints

API = Api(
    key=0,
    name="Produce",
    versions=(3, 13),
    advertised_from=0,
    gaps=("Versions 0-2 are listed, as Kafka lists them (KAFKA-18659), but close the connection.",),
    order=Order.WRITE,
)

_ACKS = {acks.value: acks for acks in Acks}


class _Written(NamedTuple):
    """What became of one partition's batch; `wait` is there while it is not durable enough.

    `later` is there while it is not even written: it says what becomes of it.
    """

    partition: int
    outcome: Appended | BaseException | None
    wait: Awaitable[None] | None
    later: Awaitable[Pending] | None = None


Topics = list[tuple[Message, list[_Written]]]


def handle(context: Context, request: Message) -> Answer:
    """Write everything now; answer now if nothing is left to wait for."""
    acks = _ACKS.get(request.acks)
    if context.peer.gate is not None:
        try:
            if request.transactional_id is not None:
                context.services.access.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
            require_owners(context, request)
        except GoQueueError as error:
            return _reply(context, _refuse_all(request, error))
    if request.transactional_id is not None and (gate := waits_for(context, request)) is not None:
        return _when_admitted(context, request, acks, gate)
    topics = _write_all(context, request, acks)
    if acks is Acks.NONE:
        if any(one.later is not None for _, written in topics for one in written):
            return _when_written(topics)
        _raise_failures(topics)
        return None
    for _, written in topics:
        for one in written:
            if one.wait is not None or one.later is not None:
                return _when_durable(context, topics, request.timeout)
    return _reply(context, topics)


async def _when_written(topics: Topics) -> None:
    _raise_failures(topics)
    for _, written in topics:
        for one in written:
            if one.later is not None:
                await asyncio.shield(one.later)


def _when_admitted(
    context: Context, request: Message, acks: Acks | None, gate: asyncio.Future[None]
) -> Awaitable[Reply | None]:
    """Write when the gate opens. The gate calls in the order of arrival; tasks would not keep it."""
    written: asyncio.Future[Topics] = asyncio.get_running_loop().create_future()

    def write(opened: asyncio.Future[None]) -> None:
        error = CoordinatorUnavailable("the node is stopping") if opened.cancelled() else opened.exception()
        topics = _write_all(context, request, acks) if error is None else _refuse_all(request, error)
        if not written.cancelled():
            written.set_result(topics)

    async def answer() -> Reply | None:
        topics = await written
        if acks is Acks.NONE:
            await _when_written(topics)
            return None
        return await _when_durable(context, topics, request.timeout)

    gate.add_done_callback(write)
    return answer()


def _write_all(context: Context, request: Message, acks: Acks | None) -> Topics:
    return [
        (topic, [_write(context, topic, partition, acks) for partition in topic.partition_data])
        for topic in request.topic_data
    ]


def _refuse_all(request: Message, error: BaseException) -> Topics:
    return [
        (topic, [_Written(partition.index, error, None) for partition in topic.partition_data])
        for topic in request.topic_data
    ]


def _write(context: Context, topic: Message, partition: Message, acks: Acks | None) -> _Written:
    services = context.services
    try:
        if acks is None:
            raise InvalidRequiredAcks("acks must be 0, 1 or -1", field="acks")
        name = topic.name if topic.topic_id is None else services.topics.by_id(topic.topic_id).name
        if not partition.records:
            raise InvalidRecord("there is no batch for this partition", field="records")
        opening = services.publish.opening(name, partition.index)
        if opening is not None:
            return _Written(partition.index, None, None, _when_open(context, name, partition, acks, opening))
        try:
            pending = services.publish.append(name, partition.index, partition.records, acks=acks)
        except NeedsCheck:
            later = services.publish.take(name, partition.index, partition.records, acks=acks)
            return _Written(partition.index, None, None, later)
    except (GoQueueError, OSError) as error:
        return _Written(partition.index, error, None)
    return _Written(partition.index, pending.appended, pending.durable)


def _when_open(
    context: Context, topic: str, partition: Message, acks: Acks, opening: Awaited
) -> asyncio.Future[Pending]:
    """Write when the partition is open. Openings call in the order of arrival; tasks would not keep it."""
    publish = context.services.publish
    later: asyncio.Future[Pending] = asyncio.get_running_loop().create_future()

    def settle(outcome: Pending | BaseException) -> None:
        if later.done():
            return
        if isinstance(outcome, BaseException):
            later.set_exception(outcome)
            # With acks=0, or after a time-out, nobody may ask for it.
            later.exception()
        else:
            later.set_result(outcome)

    def checked(task: asyncio.Future[Pending]) -> None:
        if task.cancelled():
            settle(CoordinatorUnavailable("the node is stopping"))
        else:
            settle(task.exception() or task.result())

    def write(error: GoQueueError | None) -> None:
        try:
            # One preparation may follow another. Whoever waited first asks first, so the order stays.
            if error is None and (following := publish.opening(topic, partition.index)) is not None:
                following.then(write)
                return
            if error is not None:
                publish.refused(topic, partition.index, partition.records, error)
            settle(error or publish.append(topic, partition.index, partition.records, acks=acks))
        except NeedsCheck:
            publish.take(topic, partition.index, partition.records, acks=acks).add_done_callback(checked)
        except (GoQueueError, OSError) as refusal:
            settle(refusal)

    opening.then(write)
    return later


def _raise_failures(topics: Topics) -> None:
    """acks=0 has no answer: an error is told in the only way left, by closing the connection."""
    for _, written in topics:
        for one in written:
            if isinstance(one.outcome, BaseException):
                raise one.outcome


async def _when_durable(context: Context, topics: Topics, timeout_ms: int) -> Reply:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max(timeout_ms, 0) / 1000
    settled = [(topic, [await _settled(one, deadline) for one in written]) for topic, written in topics]
    return _reply(context, settled)


async def _settled(written: _Written, deadline: float) -> _Written:
    if written.wait is None and written.later is None:
        return written
    try:
        async with asyncio.timeout_at(deadline):
            if written.later is not None:
                # Whoever gives up waiting does not stop it: it is written in its turn, or refused.
                pending = await asyncio.shield(written.later)
                written = _Written(written.partition, pending.appended, pending.durable)
            if written.wait is not None:
                await written.wait
    except TimeoutError:
        # It is written and may become durable yet: the client will ask again.
        return _Written(written.partition, RequestTimedOut("the batch is not on the disk yet"), None)
    except (GoQueueError, OSError) as error:
        return _Written(written.partition, error, None)
    return _Written(written.partition, written.outcome, None)


def _reply(context: Context, topics: Topics) -> Reply:
    rows = [
        {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partition_responses": [_row(one) for one in written],
        }
        for topic, written in topics
    ]
    misdirected = [one.outcome for _, written in topics for one in written if isinstance(one.outcome, NotLeader)]
    return {"responses": rows, **endpoints(context, misdirected)} if misdirected else {"responses": rows}


def _row(written: _Written) -> dict[str, object]:
    outcome = written.outcome
    if isinstance(outcome, Appended):
        return {
            "index": written.partition,
            "base_offset": outcome.base_offset,
            "log_append_time": outcome.stamped_ms,
            "log_start_offset": outcome.log_start_offset,
        }
    row = {
        "index": written.partition,
        "base_offset": -1,
        **failed(outcome or RequestTimedOut("not checked yet")),
        **current_leader(outcome),
    }
    if isinstance(outcome, RecordRefusal) and outcome.bad_records:
        row["record_errors"] = [
            {"batch_index": position, "batch_index_error_message": message}
            for position, message in outcome.bad_records.items()
        ]
    return row
