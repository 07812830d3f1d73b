"""A producer that batches, retries safely, and answers for every record.

Each record has a future of its own, resolved exactly once: with where it lies, or with why
it does not. One batch per partition is under way at a time and carries the producer's id
and sequence, so a repeated request is recognised by the broker and stores nothing twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from goqueue.client.accumulator import Accumulator, Batch
from goqueue.client.delayed import Delay, DeliverAt, when
from goqueue.client.errors import BrokerUnreachable, ClientError, DeliveryUnknown, ProducerClosed, RequestRefused
from goqueue.client.outgoing import (
    NO_HEADERS,
    PublishReply,
    Waiting,
    encode_message,
    fail,
    header_bytes,
    size_of,
    tell,
    to_bytes,
)
from goqueue.client.partitioning import Partitioner
from goqueue.client.transaction import Transaction, TransactionSession
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import Delivered
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.client.consumer import Consumer

# Answers after which the broker no longer takes our sequences: begin again under a new id.
_LOST_IDENTITY = frozenset({"producer_fenced", "unknown_producer_id", "out_of_order_sequence", "duplicate_sequence"})

# Where records with deduplication ids wait: they are recognised by those, so they carry no sequence, and the
# broker may choose each one's partition.
_ANY_PARTITION = -1
# Where delayed records wait: they get their partition, and their place in it, when they are due.
_HELD_BACK = -2


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """When batches go, and what must be true before they count as delivered."""

    acks: str = "leader"
    batch_records_max: int = 100
    batch_bytes_max: int = 64 * 1024
    linger_ms: int = 5
    buffer_records_max: int = 10_000
    # With an id, records are sent in transactions only, and acks is "all".
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000


@dataclass(slots=True)
class _Lane:
    """One partition: the batches queued for it and the sequence of the next."""

    queue: deque[Batch[Waiting]]
    identity: tuple[int, int] | None = None
    sequence: int = 0
    sender: asyncio.Task[None] | None = None


class Producer:
    """Sends records to topics. Use as an async context manager: leaving it flushes."""

    def __init__(self, transport: Transport, options: ProducerOptions | None = None) -> None:
        self._transport = transport
        self._options = options or ProducerOptions()
        self._batches: Accumulator[Waiting] = Accumulator(
            batch_records_max=self._options.batch_records_max,
            batch_bytes_max=self._options.batch_bytes_max,
            linger_ms=self._options.linger_ms,
        )
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._partitioners: dict[str, Partitioner] = {}
        self._identity: tuple[int, int] | None = None
        name = self._options.transactional_id
        timeout_ms = self._options.transaction_timeout_ms
        self._session = None if name is None else TransactionSession(transport, name, timeout_ms)
        self._identity_lock = asyncio.Lock()
        self._linger: asyncio.TimerHandle | None = None
        self._entering = 0
        self._unanswered = 0
        self._flushes = 0
        self._room = asyncio.Condition()
        self._closed = False

    async def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        priority: int | str | None = None,
        deduplication_id: str | None = None,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> asyncio.Future[Delivered]:
        """Queue one record; the future tells its fate. Waits only while the buffer is full.

        `priority` is a lane by number (0 to 4) or name (critical, high, normal, low, background).
        `delay` (90, timedelta, "1h30m") or `deliver_at` (a datetime or RFC 3339) holds it back: what is answered
        then is its slot. In a transaction it is scheduled when that is committed.
        `deduplication_id` makes a repeat within the topic's window an answer with the first one's place.
        """
        if self._closed:
            raise ProducerClosed("the producer is closed")
        if self._session is not None:
            if self._session.transaction_id is None:
                raise ClientError("this producer sends in transactions: `async with producer.transaction():`")
            if deduplication_id is not None:
                raise ClientError("a message of a transaction is known by its sequence: leave deduplication_id out")
        key_bytes = None if key is None else to_bytes(key, "key")
        value_bytes = to_bytes(value, "value")
        pairs = NO_HEADERS if headers is None else header_bytes(headers)
        partitioner = self._partitioners.get(topic)
        if partitioner is None or self._unanswered >= self._options.buffer_records_max:
            partitioner = await self._enter(topic)
        message = encode_message(value_bytes, key_bytes, pairs)
        message.timestamp, message.priority, message.deduplication_id = timestamp_ms, priority, deduplication_id
        is_delayed = delay is not None or deliver_at is not None
        if is_delayed:
            times = when(delay, deliver_at)
            message.delay, message.deliverAt = times.get("delay"), times.get("deliverAt")
        if self._session is None and (is_delayed or deduplication_id is not None):
            message.partition = partition
            target = TopicPartition(topic, _HELD_BACK if is_delayed else _ANY_PARTITION)
        else:
            target = TopicPartition(topic, partitioner.choose(key_bytes) if partition is None else partition)
        loop = asyncio.get_running_loop()
        waiting = Waiting(message, loop.create_future())
        self._unanswered += 1
        now_ms = _now_ms(loop)
        is_due = self._batches.add(target, waiting, size_of(value_bytes, key_bytes, pairs), now_ms)
        if self._flushes:
            self._dispatch(self._batches.take_all())
        elif is_due:
            self._dispatch(self._batches.take_due(now_ms))
        if self._linger is None:
            self._arm_linger(loop)
        return waiting.future

    async def send_and_wait(self, topic: str, value: bytes | str | None, **fields: Any) -> Delivered:
        """Send one record and wait until the broker has it."""
        return await (await self.send(topic, value, **fields))

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """A transaction: `async with` it, and all that is sent meanwhile counts together or not at all.

        With a consumer, how far it is becomes part of it too.
        """
        if self._session is None:
            raise ClientError("transactions need an id: client.producer(transactional_id=...)")
        return Transaction(self, self._session, consumer)

    async def flush(self) -> None:
        """Send what is queued and wait until every record so far has its answer."""
        self._flushes += 1
        try:
            self._dispatch(self._batches.take_all())
            await self._wait_for(lambda: self._unanswered == 0 and self._entering == 0)
        finally:
            self._flushes -= 1

    async def close(self) -> None:
        """Flush, then refuse more. A second close does no harm."""
        self._closed = True
        await self.flush()
        if self._session is not None:
            await self._session.close()
        if self._linger is not None:
            self._linger.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _enter(self, topic: str) -> Partitioner:
        """Wait for room, and for what must be known of the topic."""
        # A record that still waits here is one that a flush must not overtake.
        self._entering += 1
        try:
            await self._wait_for(lambda: self._unanswered < self._options.buffer_records_max)
            partitioner = self._partitioners.get(topic) or await self._partitioner(topic)
        except BaseException:
            self._entering -= 1
            async with self._room:
                self._room.notify_all()
            raise
        self._entering -= 1
        return partitioner

    # --- batches on their way ---------------------------------------------------------

    def _arm_linger(self, loop: asyncio.AbstractEventLoop) -> None:
        if (due_ms := self._batches.next_due_ms()) is not None:
            self._linger = loop.call_later(max(0, due_ms - _now_ms(loop)) / 1000, self._lingered, loop)

    def _lingered(self, loop: asyncio.AbstractEventLoop) -> None:
        self._linger = None
        self._dispatch(self._batches.take_due(_now_ms(loop)))
        self._arm_linger(loop)

    def _dispatch(self, batches: list[Batch[Waiting]]) -> None:
        for batch in batches:
            lane = self._lanes.get(batch.target)
            if lane is None:
                lane = self._lanes[batch.target] = _Lane(deque())
            # Behind a batch that is under way there is time to fill up: fewer requests, and nothing goes later.
            if not (lane.queue and self._batches.join(lane.queue[-1], batch)):
                lane.queue.append(batch)
            if lane.sender is None:
                lane.sender = asyncio.create_task(self._drain(lane))

    async def _drain(self, lane: _Lane) -> None:
        """Send a partition's batches one after the other, until none is left."""
        try:
            while lane.queue:
                batch = lane.queue.popleft()
                try:
                    await self._deliver(lane, batch)
                except asyncio.CancelledError:
                    self._give_up(batch, DeliveryUnknown("the producer was cancelled while a batch was under way"))
                    raise
                except ClientError as problem:
                    self._give_up(batch, problem)
                except Exception as error:
                    # Nobody waits for this task: a batch that it dropped in silence would be taken for sent.
                    self._give_up(batch, ClientError(f"the batch could not be sent: {error!r}"))
                    raise
                finally:
                    self._unanswered -= len(batch.records)
                    async with self._room:
                        self._room.notify_all()
        finally:
            lane.sender = None

    def _give_up(self, batch: Batch[Waiting], problem: ClientError) -> None:
        if self._session is not None:
            self._session.failed(problem)
        fail(batch, problem)

    async def _deliver(self, lane: _Lane, batch: Batch[Waiting]) -> None:
        if batch.target.partition < 0:
            await self._deliver_unnumbered(batch)
            return
        identity = await self._identify()
        if lane.identity != identity:
            lane.identity, lane.sequence = identity, 0
        producer_id, epoch = identity
        body = {
            "messages": [waiting.message for waiting in batch.records],
            "acks": self._options.acks if self._session is None else "all",
            "partition": batch.target.partition,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "sequence": lane.sequence,
        }
        if self._session is not None:
            body["transaction_id"] = self._session.transaction_id
        try:
            reply = await self._transport.call(
                "POST", f"/topics/{quoted(batch.target.topic)}/messages", PublishReply, body=body, repeatable=True
            )
        except BrokerUnreachable as problem:
            self._forget(identity)
            raise DeliveryUnknown(str(problem)) from problem
        except RequestRefused as refused:
            if refused.code in _LOST_IDENTITY:
                self._forget(identity)
            raise
        lane.sequence = (lane.sequence + len(batch.records)) & 0x7FFFFFFF
        tell(batch, reply)

    async def _deliver_unnumbered(self, batch: Batch[Waiting]) -> None:
        """Records that carry no sequence; each has a fate of its own.

        Those with ids are recognised by them. Delayed ones are not recognised, so they are sent once only.
        """
        repeatable = batch.target.partition == _ANY_PARTITION
        body = {"messages": [waiting.message for waiting in batch.records], "acks": self._options.acks}
        try:
            reply = await self._transport.call(
                "POST",
                f"/topics/{quoted(batch.target.topic)}/messages",
                PublishReply,
                body=body,
                repeatable=repeatable,
            )
        except BrokerUnreachable as problem:
            raise DeliveryUnknown(str(problem)) from problem
        tell(batch, reply)

    async def _identify(self) -> tuple[int, int]:
        if self._session is not None and self._session.identity is not None:
            return self._session.identity
        if self._identity is None:
            async with self._identity_lock:
                if self._identity is None:
                    # A lost answer wastes one id and harms nobody, so this may be repeated.
                    reply = await self._transport.call(
                        "POST", "/producers/init", dict[str, Any], body={}, repeatable=True
                    )
                    self._identity = (reply["producer_id"], reply["epoch"])
        return self._identity

    def _forget(self, identity: tuple[int, int]) -> None:
        # What the broker holds of our sequences is unknown now, so the next batch begins under a new id.
        # Another lane may have begun again already: its new id must not be thrown away with the old one.
        if self._identity == identity:
            self._identity = None

    async def _partitioner(self, topic: str) -> Partitioner:
        try:
            reply = await self._transport.call("GET", f"/topics/{quoted(topic)}/partitions", dict[str, Any])
        except RequestRefused as refused:
            if refused.code != "topic_not_found":
                raise
            # The first record creates its topic, where the broker allows that.
            await self._transport.call("PUT", f"/topics/{quoted(topic)}", dict[str, Any])
            reply = await self._transport.call("GET", f"/topics/{quoted(topic)}/partitions", dict[str, Any])
        return self._partitioners.setdefault(topic, Partitioner(len(reply["partitions"])))

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        async with self._room:
            await self._room.wait_for(condition)


def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
    return int(loop.time() * 1000)
