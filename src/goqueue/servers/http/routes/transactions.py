"""Transactions over HTTP: begin, publish, commit or abort; and what an operator may see and do."""

from __future__ import annotations

from collections import Counter

from goqueue.coordinator.shard import Transaction
from goqueue.errors import InvalidRequest, InvalidTransactionState
from goqueue.groups.service import NewOffset
from goqueue.partitioner import partition_for_key
from goqueue.records import Acks, TopicPartition
from goqueue.security.model import Operation, Resource
from goqueue.servers.http.bodies.message_json import record_of
from goqueue.servers.http.bodies.times import due_of, format_time
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.groups.groups import parse_offsets
from goqueue.servers.http.routes.queues.queue import failure_text
from goqueue.servers.http.types.common import MessageIn
from goqueue.servers.http.types.transactions import (
    AddPartition,
    Begun,
    OffsetsInTransaction,
    OfTransaction,
    ProducerHeartbeat,
    PublishedInTransaction,
    PublishInTransaction,
    SettleInTransaction,
    Status,
    TransactionRow,
    Transactions,
    TransactionStats,
)
from goqueue.servers.services import Services
from goqueue.servers.transaction_ids import number_of, transaction_id
from goqueue.transactions.commands import Described, Producer
from goqueue.transactions.records import TransactionState


async def heartbeat(services: Services, call: Call) -> Status:
    """Ask whether the producer is still the one of its transactional id."""
    raw = call.path["producer_id"]
    if not raw.isascii() or not raw.isdigit():
        raise InvalidRequest(f"{raw[:40]!r} is not a producer id", field="producer_id")
    described = await services.transactions.describe(call.body.transactional_id)
    producer = Producer(int(raw), call.body.epoch)
    services.transactions.check_is(described, producer)
    services.transactions.heard(call.body.transactional_id, producer)
    return Status(status="ok")


async def begin(services: Services, call: Call) -> Begun:
    """Begin a transaction."""
    name, producer = call.body.transactional_id, _producer(call.body)
    await services.transactions.begin(name, producer)
    services.transactions.heard(name, producer)
    return Begun(transaction_id=transaction_id(await services.transactions.describe(name)))


async def publish(services: Services, call: Call) -> PublishedInTransaction:
    """Publish a message that is seen once the transaction is committed."""
    body: PublishInTransaction = call.body
    transactions = services.transactions
    producer = Producer(body.producer_id, body.epoch)
    record = record_of(MessageIn(value=body.value, key=body.key, headers=body.headers, encoding=body.encoding))
    topic = await services.topics.ensure(body.topic)
    partition = body.partition
    if partition < 0:
        if record.key is None:
            raise InvalidRequest("without a key the partition must be named: a retry might go elsewhere", field="key")
        algorithm = services.topics.config(body.topic).partitioner
        partition = partition_for_key(record.key, topic.partition_count, algorithm)
    number = number_of(body.transaction_id, body.producer_id)
    name = body.transactional_id or transactions.id_of(body.producer_id)
    await _add(services, name, producer, TopicPartition(body.topic, partition), number)
    due_ms = due_of(body.delay, body.deliverAt, services.clock.now_ms())
    if due_ms is not None:
        await services.staging.load(TopicPartition(body.topic, partition))
    (result,) = await services.publish.publish_records(
        body.topic,
        [record],
        acks=Acks.ALL,
        partition=partition,
        producer_id=body.producer_id,
        producer_epoch=body.epoch,
        sequence=body.sequence,
        transactional=True,
        transaction=number,
        dues=None if due_ms is None else [due_ms],
    )
    if result.error is not None:
        raise result.error
    if result.due_ms is not None:
        return PublishedInTransaction(
            duplicate=result.duplicate,
            delayed=True,
            slot=f"{result.partition}/{result.offset}",
            deliverAt=format_time(result.due_ms),
        )
    return PublishedInTransaction(partition=partition, offset=result.offset, duplicate=result.duplicate)


async def add_partition(services: Services, call: Call) -> Status:
    """Say which partition the transaction is going to write to."""
    body: AddPartition = call.body
    number = number_of(body.transaction_id, body.producer_id)
    await _add(services, body.transactional_id, _producer(body), TopicPartition(body.topic, body.partition), number)
    return Status(status="added")


async def commit_offsets(services: Services, call: Call) -> Status:
    """Commit offsets of a group when the transaction is committed, if it is."""
    body: OffsetsInTransaction = call.body
    transactions, producer = services.transactions, _producer(body)
    wanted = [NewOffset(at.topic, at.partition, offset) for at, offset in parse_offsets(body.offsets)]
    if not wanted:
        raise InvalidRequest("there are no offsets to commit", field="offsets")
    number = number_of(body.transaction_id, body.producer_id)
    described = await _described(services, body.transactional_id, producer)
    await transactions.add_group(body.transactional_id, producer, body.group, number=number or described.number)
    problems = await services.groups.commit_in_transaction(
        body.group,
        wanted,
        Transaction(body.producer_id, body.epoch),
        member_id=body.member_id,
        generation=body.generation,
    )
    for problem in problems:
        if problem is not None:
            raise problem
    return Status(status="added")


async def settle(services: Services, call: Call) -> Status:
    """Settle receipts of a queue when the transaction is committed, if it is."""
    body: SettleInTransaction = call.body
    producer = _producer(body)
    number = number_of(body.transaction_id, body.producer_id)
    described = await _described(services, body.transactional_id, producer)
    places = services.delivery.places_of(body.receipts)
    await services.transactions.take_part(body.transactional_id, producer, places, number=number or described.number)
    await services.delivery.promise(
        body.receipts,
        Transaction(body.producer_id, body.epoch),
        rejected=body.action == "reject",
        reason=failure_text(body.error, body.reason),
    )
    return Status(status="added")


async def commit(services: Services, call: Call) -> Status:
    """Show all that the transaction wrote; answered when that is decided for good."""
    await _end(services, call.body, commit=True)
    return Status(status="committed")


async def abort(services: Services, call: Call) -> Status:
    """Hide all that the transaction wrote, for ever."""
    await _end(services, call.body, commit=False)
    return Status(status="aborted")


async def list_transactions(services: Services, _call: Call) -> Transactions:
    """Transactions that are open or being ended."""
    found = await services.transactions.list()
    rows = [_row(services, one) for one in found if one.state is TransactionState.ONGOING or one.state.is_prepared]
    return Transactions(transactions=rows, count=len(rows))


async def stats(services: Services, _call: Call) -> TransactionStats:
    """How many transactional ids there are, by state, and what transactions came to."""
    transactions, counted = services.transactions, services.transactions.statistics
    found, writers = await transactions.list(), await transactions.list_writers()
    staging = [described for writer in writers for _, described in writer.participants]
    started = [one.started_ms for one in (*found, *staging) if one.state is TransactionState.ONGOING]
    ended = counted.committed + counted.aborted
    return TransactionStats(
        transactional_ids=len(found),
        states=dict(sorted(Counter(one.state.kafka_name for one in found).items())),
        ending=transactions.ending_count,
        oldest_open_ms=max(0, services.clock.now_ms() - min(started)) if started else 0,
        sessions=transactions.session_count,
        prepared_writers=len(writers),
        prepared_participants=len(staging),
        begun=counted.begun,
        committed=counted.committed,
        aborted=counted.aborted,
        timed_out=counted.timed_out,
        markers_written=counted.markers_written,
        marker_retries=counted.marker_retries,
        end_ms_mean=round(1000 * counted.end_seconds / ended, 3) if ended else 0.0,
    )


async def describe(services: Services, call: Call) -> TransactionRow:
    """What is known of a transactional id."""
    return _row(services, await services.transactions.describe(call.path["transactional_id"]))


async def abort_any(services: Services, call: Call) -> Status:
    """Abort an open transaction on an operator's word; its producer is fenced."""
    await services.transactions.abort(call.path["transactional_id"])
    return Status(status="aborted")


async def _end(services: Services, body: OfTransaction, *, commit: bool) -> None:
    producer = _producer(body)
    number = number_of(body.transaction_id, body.producer_id)
    await services.transactions.end(body.transactional_id, producer, commit=commit, number=number)
    services.transactions.heard(body.transactional_id, producer)


async def _add(
    services: Services,
    name: str,
    producer: Producer,
    place: TopicPartition,
    number: int | None,
) -> None:
    """Only to a transaction that was begun: over HTTP a producer says when."""
    described = await _described(services, name, producer)
    if place in described.partitions and number in {None, described.number}:
        return
    number = described.number if number is None else number
    for error in (await services.transactions.add_partitions(name, producer, [place], number=number)).values():
        raise error


async def _described(services: Services, name: str, producer: Producer) -> Described:
    """The id with its open transaction, of a producer that lives."""
    described = await services.transactions.describe(name)
    services.transactions.check_is(described, producer)
    services.transactions.heard(name, producer)
    if described.state is not TransactionState.ONGOING:
        raise InvalidTransactionState("there is no open transaction")
    return described


def _producer(body: OfTransaction) -> Producer:
    return Producer(body.producer_id, body.epoch)


def _row(services: Services, one: Described) -> TransactionRow:
    # An id that may be described does not reveal the names of topics that may not be.
    may = services.access.may
    return TransactionRow(
        transactional_id=one.transactional_id,
        transaction_id="" if one.started_ms < 0 else transaction_id(one),
        producer_id=one.producer_id,
        epoch=one.producer_epoch,
        state=one.state.kafka_name,
        timeout_ms=one.timeout_ms,
        started_ms=one.started_ms,
        partitions=[str(at) for at in one.partitions if may(Operation.DESCRIBE, Resource.TOPIC, at.topic)],
    )


_REFUSALS = (400, 403, 404, 409, 503, 507)

ROUTES = (
    Route(
        "POST",
        "/producers/{producer_id}/heartbeat",
        heartbeat,
        "Ask whether a producer is still the one of its transactional id",
        {200: Status},
        body=ProducerHeartbeat,
        errors=_REFUSALS,
    ),
    Route(
        "POST", "/transactions/begin", begin, "Begin a transaction", {200: Begun}, body=OfTransaction, errors=_REFUSALS
    ),
    Route(
        "POST",
        "/transactions/publish",
        publish,
        "Publish within a transaction",
        {200: PublishedInTransaction},
        body=PublishInTransaction,
        errors=(*_REFUSALS, 413),
    ),
    Route(
        "POST",
        "/transactions/add-partition",
        add_partition,
        "Add a partition to a transaction",
        {200: Status},
        body=AddPartition,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/transactions/offsets",
        commit_offsets,
        "Commit offsets of a group within a transaction",
        {200: Status},
        body=OffsetsInTransaction,
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/transactions/ack",
        settle,
        "Settle receipts within a transaction",
        {200: Status},
        body=SettleInTransaction,
        errors=(*_REFUSALS, 410),
    ),
    Route(
        "POST",
        "/transactions/commit",
        commit,
        "Commit a transaction",
        {200: Status},
        body=OfTransaction,
        errors=_REFUSALS,
    ),
    Route(
        "POST", "/transactions/abort", abort, "Abort a transaction", {200: Status}, body=OfTransaction, errors=_REFUSALS
    ),
    Route("GET", "/transactions", list_transactions, "List active transactions", {200: Transactions}, errors=(503,)),
    Route("GET", "/transactions/stats", stats, "Count transactions by state", {200: TransactionStats}, errors=(503,)),
    Route(
        "GET",
        "/transactions/{transactional_id}",
        describe,
        "Describe a transactional id",
        {200: TransactionRow},
        errors=_REFUSALS,
    ),
    Route(
        "POST",
        "/transactions/{transactional_id}/abort",
        abort_any,
        "Abort the open transaction of an id and fence its producer",
        {200: Status},
        errors=_REFUSALS,
    ),
)
