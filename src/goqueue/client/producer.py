"""A producer that batches, retries safely, and answers for every record.

Each record has a future of its own, resolved exactly once: with where it lies, or with why
it does not. Here records wait for company; `sending` has the batches that are under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from goqueue.client.accumulator import Accumulator
from goqueue.client.delayed import Delay, DeliverAt, when
from goqueue.client.errors import ClientError, ProducerClosed, RequestRefused
from goqueue.client.outgoing import NO_HEADERS, Waiting, encode_message, header_bytes, size_of, to_bytes
from goqueue.client.partitioning import Partitioner
from goqueue.client.sending import ANY_PARTITION, HELD_BACK, Sending
from goqueue.client.transaction import Transaction, TransactionSession
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import Delivered
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.client.consumer import Consumer

# How long what is known of a topic counts, as with Kafka's clients (metadata.max.age.ms).
TOPIC_AGE_S_MAX = 300


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
        self._partitioners: dict[str, Partitioner] = {}
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        name = self._options.transactional_id
        timeout_ms = self._options.transaction_timeout_ms
        self._session = None if name is None else TransactionSession(transport, name, timeout_ms)
        self._sending = Sending(
            transport,
            acks=self._options.acks,
            session=self._session,
            join=self._batches.join,
            answered=self._have_answer,
        )
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
        if partitioner is None or self._entering or self._unanswered >= self._options.buffer_records_max:
            partitioner = await self._enter(topic)
        message = encode_message(value_bytes, key_bytes, pairs)
        message.timestamp, message.priority, message.deduplication_id = timestamp_ms, priority, deduplication_id
        is_delayed = delay is not None or deliver_at is not None
        if is_delayed:
            times = when(delay, deliver_at)
            message.delay, message.deliverAt = times.get("delay"), times.get("deliverAt")
        if self._session is None and (is_delayed or deduplication_id is not None):
            message.partition = partition
            target = TopicPartition(topic, HELD_BACK if is_delayed else ANY_PARTITION)
        else:
            target = TopicPartition(topic, partitioner.choose(key_bytes) if partition is None else partition)
        loop = asyncio.get_running_loop()
        waiting = Waiting(message, loop.create_future())
        self._unanswered += 1
        now_ms = _now_ms(loop)
        is_due = self._batches.add(target, waiting, size_of(value_bytes, key_bytes, pairs), now_ms)
        if self._flushes:
            self._sending.dispatch(self._batches.take_all())
        elif is_due:
            self._sending.dispatch(self._batches.take_due(now_ms))
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
            self._sending.dispatch(self._batches.take_all())
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
        for timer in self._forgetting.values():
            timer.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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
