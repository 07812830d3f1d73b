"""Publishing as front-ends with single messages need it: into partitions, under a sequence, or held back for later.

A front-end makes records of what it was sent; what is decided about them is decided here, the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

from goqueue.broker.arrivals.record_publishing import Published
from goqueue.delay.values import DUE_MS_MAX, Held, SlotId
from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.records import TRACEPARENT, Acks, Header, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.servers.transaction_ids import number_of
from goqueue.tracing.context import parse_traceparent
from goqueue.transactions.commands import Producer


class Incoming(NamedTuple):
    """A message to publish: its record, the partition that it names, and when it is due if it says so."""

    record: NewRecord
    partition: int | None = None
    due_ms: int | None = None


class Sequenced(NamedTuple):
    """The producer that messages come from, and the sequence of the first of them."""

    producer_id: int
    producer_epoch: int
    sequence: int
    # The open transaction that they are part of, if the producer says so.
    transaction_id: str | None = None


def acks_unless_named(services: Services) -> Acks:
    """How safe a message is before it is answered, if its sender does not say.

    In a cluster a record that only the leader has is lost when another node leads, and it cannot be read before.
    """
    return Acks.ALL if services.config.cluster.peers else Acks.LEADER


def refused(error: GoQueueError) -> Published:
    """The outcome of a message that was not stored."""
    return Published(partition=-1, offset=-1, timestamp_ms=-1, error=error)


def due_at(delay_ms: int | None, deliver_at_ms: int | None, now_ms: int) -> int | None:
    """When a message is due; None if it says nothing about that."""
    if delay_ms is not None and deliver_at_ms is not None:
        raise InvalidRequest("a message has either a delay or a deliver_at", field="deliver_at", hint="leave one out")
    if delay_ms is None:
        return deliver_at_ms
    if delay_ms < 0:
        raise InvalidRequest("delay is negative", field="delay", hint="leave it out to deliver the message at once")
    if now_ms + delay_ms > DUE_MS_MAX:
        raise InvalidRequest("delay ends after the year 9999", field="delay")
    return now_ms + delay_ms


async def publish_messages(
    services: Services,
    topic: str,
    messages: Sequence[Incoming | GoQueueError],
    *,
    acks: Acks,
    partition: int | None = None,
    sequenced: Sequenced | None = None,
    written: Callable[[], None] | None = None,
) -> list[Published]:
    """Publish messages, and hold back those that are due later; one outcome each, in their order.

    `partition` is for messages that name none themselves. Messages under a sequence are all stored or all refused,
    with the error raised. `written` may be called once they are written, before the wait until they are safe.
    """
    if services.caller.trace:
        messages = _traced(messages, services.caller.trace)
    await services.topics.ensure(topic)
    if sequenced is not None:
        return await _publish_all_sequenced(services, topic, messages, acks, partition, sequenced, written)
    now_ms = services.clock.now_ms()
    later = [
        at
        for at, one in enumerate(messages)
        if isinstance(one, Incoming) and one.due_ms is not None and one.due_ms > now_ms
    ]
    if not later:
        return await publish_each(services, topic, messages, acks, partition, written)
    outcomes = await _hold(services, topic, messages, later, partition)
    now = [at for at in range(len(messages)) if at not in outcomes]
    if now:
        stored = await publish_each(services, topic, [messages[at] for at in now], acks, partition)
        outcomes.update(zip(now, stored, strict=True))
    return [outcomes[at] for at in range(len(messages))]


def _traced(messages: Sequence[Incoming | GoQueueError], trace: str) -> Sequence[Incoming | GoQueueError]:
    """The messages, those without a trace context with that of the request. One that is not well formed is ignored."""
    context = parse_traceparent(trace)
    if context is None:
        return messages
    header: Header = (TRACEPARENT, str(context).encode())
    found: list[Incoming | GoQueueError] = []
    for one in messages:
        if isinstance(one, Incoming) and all(name != TRACEPARENT for name, _ in one.record.headers):
            found.append(one._replace(record=one.record._replace(headers=(*one.record.headers, header))))
        else:
            found.append(one)
    return found


async def publish_each(
    services: Services,
    topic: str,
    messages: Sequence[Incoming | GoQueueError],
    acks: Acks,
    default: int | None = None,
    written: Callable[[], None] | None = None,
) -> list[Published]:
    """Publish messages now, grouped by the partition that they name. What is an error already stays one."""
    outcomes: list[Published | None] = [None] * len(messages)
    groups: dict[int | None, tuple[list[int], list[NewRecord]]] = {}
    for at, message in enumerate(messages):
        if isinstance(message, GoQueueError):
            outcomes[at] = refused(message)
            continue
        named = message.partition
        positions, records = groups.setdefault(default if named is None else named, ([], []))
        positions.append(at)
        records.append(message.record)
    for number, (partition, (positions, records)) in enumerate(groups.items(), 1):
        last_written = written if number == len(groups) else None
        try:
            results = await services.publish.publish_records(
                topic, records, acks=acks, partition=partition, written=last_written
            )
        except GoQueueError as error:
            # It concerns this partition's messages only; the others are published all the same.
            results = [refused(error)] * len(records)
        for at, outcome in zip(positions, results, strict=True):
            outcomes[at] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


async def publish_sequenced(
    services: Services,
    topic: str,
    partition: int,
    records: Sequence[NewRecord],
    *,
    acks: Acks,
    sequenced: Sequenced,
    dues: Sequence[int | None] | None = None,
    written: Callable[[], None] | None = None,
) -> list[Published]:
    """Publish under a producer's sequence: one batch in one partition, or nothing."""
    producer_id, epoch, sequence, transaction_id = sequenced
    number = number_of(transaction_id, producer_id)
    is_transactional = number is not None or await services.transactions.is_participant(producer_id)
    if dues is not None and not is_transactional:
        raise refuse_delay()
    if is_transactional:
        place = TopicPartition(topic, partition)
        if dues is not None:
            await services.staging.load(place)
        await services.transactions.join(Producer(producer_id, epoch), place, number)
    return await services.publish.publish_records(
        topic,
        records,
        acks=acks,
        partition=partition,
        producer_id=producer_id,
        producer_epoch=epoch,
        sequence=sequence,
        transactional=is_transactional,
        transaction=number,
        dues=dues,
        written=written,
    )


def check_deduplication(services: Services, topic: str, field: str, *, is_sequenced: bool) -> None:
    """A deduplication id that would be ignored is refused: whoever sends one counts on it."""
    if not services.topics.config(topic).dedup_window_ms:
        raise InvalidRequest(
            f"topic {topic!r} has no deduplication window",
            field=field,
            hint="set goqueue.dedup.window.ms on the topic, such as 300000 for five minutes",
        )
    if is_sequenced:
        raise InvalidRequest(
            "a message is recognised by its deduplication_id or by its producer's sequence, not by both",
            field=field,
            hint="leave out producer_id, producer_epoch and sequence",
        )


def refuse_delay() -> InvalidRequest:
    """Why a producer with sequences cannot delay messages, unless it has a transaction."""
    return InvalidRequest(
        "a message under a producer's sequence can be delayed within a transaction only: "
        "elsewhere it is recognised by nothing when it is sent again",
        field="delay",
        hint="leave out producer_id, producer_epoch and sequence, or begin a transaction",
    )


def one_partition(named: set[int | None]) -> int:
    """The partition that all messages under a sequence name."""
    partition = next(iter(named)) if len(named) == 1 else None
    if partition is None:
        raise InvalidRequest(
            "a sequence counts within one partition, so all messages must name the same one",
            field="partition",
            hint="send one request per partition, with the partition at the top",
        )
    return partition


async def _publish_all_sequenced(
    services: Services,
    topic: str,
    messages: Sequence[Incoming | GoQueueError],
    acks: Acks,
    default: int | None,
    sequenced: Sequenced,
    written: Callable[[], None] | None,
) -> list[Published]:
    taken: list[Incoming] = []
    for message in messages:
        if isinstance(message, GoQueueError):
            raise message
        taken.append(message)
    partition = one_partition({default if one.partition is None else one.partition for one in taken})
    dues = [one.due_ms for one in taken]
    outcomes = await publish_sequenced(
        services,
        topic,
        partition,
        [one.record for one in taken],
        acks=acks,
        sequenced=sequenced,
        dues=dues if any(due is not None for due in dues) else None,
        written=written,
    )
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes


async def _hold(
    services: Services,
    topic: str,
    messages: Sequence[Incoming | GoQueueError],
    later: Sequence[int],
    default: int | None,
) -> dict[int, Published]:
    """Hold messages back; their outcomes, by position."""
    outcomes: dict[int, Published] = {}
    held: dict[int, Held] = {}
    for at in later:
        message = messages[at]
        if isinstance(message, GoQueueError) or message.due_ms is None:
            continue
        record, partition, due_ms = message.record, message.partition, message.due_ms
        if record.timestamp_ms is not None:
            hint = "leave the timestamp out, or put it into a header"
            error = InvalidRequest("a delayed message is stamped when it is delivered", field="timestamp", hint=hint)
            outcomes[at] = refused(error)
        else:
            held[at] = Held(record, due_ms, default if partition is None else partition)
    if held:
        results = await services.delay.hold(topic, list(held.values()))
        for (at, one), result in zip(held.items(), results, strict=True):
            if isinstance(result, SlotId):
                outcomes[at] = Published(result.partition, result.offset, -1, due_ms=one.due_ms)
            else:
                outcomes[at] = refused(result)
    return outcomes


class Reach(NamedTuple):
    """How far an acknowledged write got: what every in-sync replica had done, and how many there were."""

    durability: Literal["synced", "written"]
    replicas: int


def reach_of(services: Services, topic: str, partitions: Collection[int]) -> Reach | None:
    """How far a write with acks=all into these partitions got; of several, the fewest replicas. None: into none."""
    found = services.topics.find(topic)
    if found is None:
        return None
    assignments = services.topics.assignments(found)
    in_sync = [len(assignments[one].isr) for one in partitions if 0 <= one < len(assignments)]
    if not in_sync:
        return None
    return Reach("written" if services.config.durability.acks_all == "written" else "synced", min(in_sync))
