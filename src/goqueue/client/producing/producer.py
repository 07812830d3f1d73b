"""A producer that batches, retries safely, and answers for every record.

    async with client.producer() as producer:
        await producer.send("orders", "hello", key="customer-7")

Each record has a future of its own, resolved exactly once: with where it is stored, or with why
it is not. A failure that the program has not looked at is raised by `flush`, `close` and the end
of the block, as `SendFailed`. Here records wait to be batched; `sending` has the batches under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from goqueue.client.admin.delayed import Delay, DeliverAt
from goqueue.client.durations import ms_of, seconds_of
from goqueue.client.errors import ClientError, ProducerClosed, RequestRefused, SendFailed
from goqueue.client.options import ProducerOptions
from goqueue.client.producing.accumulator import Accumulator
from goqueue.client.producing.failures import Failures, asyncio_future_was_seen
from goqueue.client.producing.outgoing import OutgoingRecord, PriorityName, SendFields, Waiting, check_topic, prepare
from goqueue.client.producing.partitioning import Partitioner
from goqueue.client.producing.sending import ANY_PARTITION, HELD_BACK, Sending
from goqueue.client.producing.transaction import Transaction, TransactionSession
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import Delivered
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.client.consuming.consumer import Consumer
    from goqueue.client.schemas.typed import TypedValues

# How long what is known of a topic counts, as with Kafka's clients (metadata.max.age.ms).
TOPIC_AGE_S_MAX = 300


class Producer:
    """Sends records to topics. Use as an async context manager: leaving it flushes."""

    def __init__(self, transport: Transport, options: ProducerOptions | None = None) -> None:
        self._transport = transport
        self._options = options or ProducerOptions()
        self._batches: Accumulator[Waiting] = Accumulator(
            batch_records_max=self._options.batch_records_max,
            batch_bytes_max=self._options.batch_bytes_max,
            linger_ms=ms_of(self._options.linger, "linger"),
        )
        self._partitioners: dict[str, Partitioner] = {}
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        name = self._options.transactional_id
        timeout_ms = ms_of(self._options.transaction_timeout, "transaction_timeout")
        delivery_timeout_s = seconds_of(self._options.delivery_timeout, "delivery_timeout")
        self._session = None if name is None else TransactionSession(transport, name, timeout_ms, delivery_timeout_s)
        self._failures = Failures(asyncio_future_was_seen)
        self._sending = Sending(
            transport,
            acks=self._options.acks,
            delivery_timeout_s=delivery_timeout_s,
            session=self._session,
            join=self._batches.join,
            answered=self._have_answer,
            on_refused=self._failures.add,
        )
        # Told by the client, if values are instances of a class or documents of a schema.
        self.typed: TypedValues | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._entering = 0
        self._entrance = asyncio.Lock()
        self._unanswered = 0
        self._flushes = 0
        self._room = asyncio.Condition()
        self._closed = False

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        json: object = None,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        priority: int | PriorityName | None = None,
        deduplication_id: str | None = None,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> asyncio.Future[Delivered]:
        """Queue one record; the future tells what became of it. Waits only while the buffer is full.

            await producer.send("orders", json={"id": 7}, key="customer-7", priority="high", delay="10m")

        What can be checked without the broker is raised at once: types, names, priority, times.
        `value` is bytes or text; of a producer with a schema, an instance of its class or a document.
        `json` is encoded as the value. `priority` is a lane by number (0 to 4) or name.
        `delay` (90, timedelta, "1h30m") or `deliver_at` (a datetime or RFC 3339) holds it back: the answer
        is its slot then. In a transaction it is scheduled when that is committed.
        `deduplication_id` makes a repeat within the topic's window an answer with the first one's place.
        """
        self.check_open()
        if topic not in self._partitioners:
            check_topic(topic)
        if self.typed is not None and value is not None:
            await self.typed.prepare(topic)
            value = self.typed.encode(topic, value)
        prepared = prepare(
            topic,
            value,
            json=json,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            priority=priority,
            deduplication_id=deduplication_id,
            delay=delay,
            deliver_at=deliver_at,
        )
        return await self.send_prepared(prepared)

    async def send_and_wait(self, topic: str, value: Any = None, **fields: Unpack[SendFields]) -> Delivered:
        """Send one record and wait until the broker has it.

        delivered = await producer.send_and_wait("orders", "hello")
        print(delivered.partition, delivered.offset)
        """
        return await (await self.send(topic, value, **fields))

    @property
    def buffer_records_max(self) -> int:
        """How many records may wait for their answers."""
        return self._options.buffer_records_max

    def check_open(self) -> None:
        """Refuse what comes after the end."""
        if self._closed:
            raise ProducerClosed("the producer is closed: open another one with client.producer()")
        self._transport.check_open()

    async def send_prepared(self, prepared: OutgoingRecord) -> asyncio.Future[Delivered]:
        """Queue a record that has been checked."""
        future = self.queue_prepared(prepared)
        if future is None:
            partitioner = await self._enter(prepared.topic)
            future = self._queue(prepared, partitioner)
        return future

    def queue_prepared(self, prepared: OutgoingRecord) -> asyncio.Future[Delivered] | None:
        """Queue a record if that can be done at once; None while it has to wait for room, or for its topic."""
        self._check_transaction(prepared)
        partitioner = self._partitioners.get(prepared.topic)
        if partitioner is None or self._entering or self._unanswered >= self._options.buffer_records_max:
            return None
        return self._queue(prepared, partitioner)

    def _check_transaction(self, prepared: OutgoingRecord) -> None:
        if self._session is not None:
            if self._session.transaction_id is None:
                raise ClientError("this producer sends in transactions: `async with producer.transaction():`")
            if prepared.message.deduplication_id is not None:
                raise ClientError("a message of a transaction is known by its sequence: leave deduplication_id out")

    def _queue(self, prepared: OutgoingRecord, partitioner: Partitioner) -> asyncio.Future[Delivered]:
        message, partition = prepared.message, prepared.partition
        if self._session is None and (prepared.is_delayed or message.deduplication_id is not None):
            message.partition = partition
            target = TopicPartition(prepared.topic, HELD_BACK if prepared.is_delayed else ANY_PARTITION)
        else:
            chosen = partitioner.choose(prepared.key) if partition is None else partition
            target = TopicPartition(prepared.topic, chosen)
        loop = asyncio.get_running_loop()
        waiting = Waiting(message, loop.create_future())
        self._unanswered += 1
        now_ms = _now_ms(loop)
        is_due = self._batches.add(target, waiting, prepared.bytes, now_ms)
        if self._flushes:
            self._sending.dispatch(self._batches.take_all())
        elif is_due:
            self._sending.dispatch(self._batches.take_due(now_ms))
        if self._linger is None:
            self._arm_linger(loop)
        return waiting.future

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """A transaction: `async with` it, and all records that are sent in it become visible together or not at all.

        async with producer.transaction() as transaction:
            await transaction.send("orders", "hello")
        """
        if self._session is None:
            raise ClientError("transactions need an id: client.producer(transactional_id=...)")
        return Transaction(self, self._session, consumer)

    async def flush(self) -> None:
        """Send what is queued and wait until every record so far has its answer.

        Raises `SendFailed` if records were not stored and the program has not looked at their futures.

        await producer.send("orders", "hello")
        await producer.flush()
        """
        await self.drain()
        if (failed := self._failures.take()) is not None:
            raise failed

    async def drain(self) -> None:
        """Send what is queued and wait until every record so far has its answer, good or bad."""
        self._flushes += 1
        try:
            self._sending.dispatch(self._batches.take_all())
            await self._wait_for(lambda: self._unanswered == 0 and self._entering == 0)
        finally:
            self._flushes -= 1

    async def close(self) -> None:
        """Flush, then refuse more; raises `SendFailed` as `flush` does. A second close does no harm.

        producer = client.producer()
        try:
            await producer.send("orders", "hello")
        finally:
            await producer.close()
        """
        self._closed = True
        try:
            await self.flush()
        finally:
            if self._session is not None:
                await self._session.close()
            self._failures.close()
            if self._linger is not None:
                self._linger.cancel()
            for timer in self._forgetting.values():
                timer.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except SendFailed as failed:
            if error is None:
                raise
            # The error of the block goes on; what was not stored is told with it.
            error.add_note(f"while the producer was closed: {failed}")

    async def _enter(self, topic: str) -> Partitioner:
        """Wait for room, and for what must be known of the topic, in the order of coming."""
        # A record that still waits here is one that neither a flush nor a later record may overtake.
        self._entering += 1
        try:
            async with self._entrance:
                await self._wait_for(lambda: self._unanswered < self._options.buffer_records_max)
                partitioner = self._partitioners.get(topic) or await self._partitioner(topic)
        except BaseException:
            self._entering -= 1
            async with self._room:
                self._room.notify_all()
            raise
        self._entering -= 1
        return partitioner

    # --- when batches go --------------------------------------------------------------

    def _arm_linger(self, loop: asyncio.AbstractEventLoop) -> None:
        if (due_ms := self._batches.next_due_ms()) is not None:
            self._linger = loop.call_later(max(0, due_ms - _now_ms(loop)) / 1000, self._lingered, loop)

    def _lingered(self, loop: asyncio.AbstractEventLoop) -> None:
        self._linger = None
        self._sending.dispatch(self._batches.take_due(_now_ms(loop)))
        self._arm_linger(loop)

    async def _partitioner(self, topic: str) -> Partitioner:
        path = f"/topics/{quoted(topic)}"
        try:
            found = await self._transport.call("GET", path, dict[str, Any])
        except RequestRefused as refused:
            if refused.code != "topic_not_found":
                raise
            # The first record creates its topic, where the broker allows that.
            found = await self._transport.call("PUT", path, dict[str, Any])
        partitioner = self._partitioners[topic] = Partitioner.of(found)
        self._forgetting[topic] = asyncio.get_running_loop().call_later(TOPIC_AGE_S_MAX, self._forget, topic)
        return partitioner

    def _forget(self, topic: str) -> None:
        """Partitions are added and settings changed: the next record asks again."""
        del self._partitioners[topic], self._forgetting[topic]

    async def _have_answer(self, records: int) -> None:
        self._unanswered -= records
        async with self._room:
            self._room.notify_all()

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        async with self._room:
            await self._room.wait_for(condition)


def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
    return int(loop.time() * 1000)
