"""A producer and its transactions without `await`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from goqueue.client.admin.delayed import Delay, DeliverAt
from goqueue.client.blocking.consumers import Consumer
from goqueue.client.blocking.loop import BackgroundLoop, Closable
from goqueue.client.errors import ClientError, ProducerClosed
from goqueue.client.producing.failures import Answer, Failures
from goqueue.client.producing.outgoing import OutgoingRecord, PriorityName, SendFields, check_topic, prepare
from goqueue.client.producing.producer import Producer as AsyncProducer
from goqueue.client.producing.transaction import Transaction as AsyncTransaction
from goqueue.client.types import Delivered, QueueMessage, SendFailure
from goqueue.records import TopicPartition


class SendFuture(concurrent.futures.Future[Delivered]):
    """What became of one record. It knows whether the program has looked."""

    def __init__(self) -> None:
        super().__init__()
        self.was_seen = False

    def result(self, timeout: float | None = None) -> Delivered:
        """Where the record is stored; raises why it is not."""
        try:
            return super().result(timeout)
        finally:
            # A wait that timed out has seen nothing.
            self.was_seen = self.done()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the record is not stored."""
        problem = super().exception(timeout)
        self.was_seen = True
        return problem


def _was_seen(future: Answer) -> bool:
    return isinstance(future, SendFuture) and future.was_seen


class Producer(Closable):
    """Sends records; `send` returns a future from `concurrent.futures`.

    with client.producer() as producer:
        producer.send("orders", "hello")

    Leaving the block raises `SendFailed` if a record was not stored and the program has not looked at its future.
    """

    def __init__(self, loop: BackgroundLoop, producer: AsyncProducer) -> None:
        self._loop = loop
        self._producer = producer
        self._failures = Failures(_was_seen)
        self._known: set[str] = set()
        # As many as may wait for their answers; `send` blocks while it is used up.
        self._room = threading.BoundedSemaphore(producer.buffer_records_max)
        self._pending: set[SendFuture] = set()
        self._closed = False

    def send(
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
    ) -> SendFuture:
        """Queue one record; the future tells what became of it. Waits only while the buffer is full.

            producer.send("orders", json={"id": 7}, key="customer-7", priority="high", delay="10m")

        What can be checked without the broker is raised at once: types, names, priority, times.
        """
        if self._closed:
            raise ProducerClosed("the producer is closed: open another one with client.producer()")
        if topic not in self._known:
            check_topic(topic)
            self._known.add(topic)
        typed = self._producer.typed
        if typed is not None and value is not None:
            if not typed.is_ready(topic):
                self._loop.run(typed.prepare(topic))
            value = typed.encode(topic, value)
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
        self._loop.check_usable()
        self._room.acquire()
        future = SendFuture()
        try:
            self._loop.call_soon(self._begin, prepared, future)
        except ClientError:
            self._room.release()
            raise
        return future

    def send_and_wait(self, topic: str, value: Any = None, **fields: Unpack[SendFields]) -> Delivered:
        """Send one record and wait until the broker has it.

        delivered = producer.send_and_wait("orders", "hello")
        print(delivered.partition, delivered.offset)
        """
        return self.send(topic, value, **fields).result()

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """A transaction: use it with `with`, and all records that are sent in it become visible together or not at all.

        with producer.transaction() as transaction:
            transaction.send("orders", "hello")
        """
        inner = None if consumer is None else consumer.asynchronous
        return Transaction(self._loop, self._producer.transaction(inner))

    def flush(self) -> None:
        """Wait until every record so far has its answer; raises `SendFailed` if some were not stored.

        producer.send("orders", "hello")
        producer.flush()
        """
        self._loop.run(self._flush())

    def close(self) -> None:
        """Flush, then refuse more; raises `SendFailed` as `flush` does. A second close does no harm.

        producer = client.producer()
        try:
            producer.send("orders", "hello")
        finally:
            producer.close()
        """
        if self._closed:
            return
        self._closed = True
        self._loop.run(self._close())

    # --- on the loop -----------------------------------------------------------------

    def _begin(self, prepared: OutgoingRecord, future: SendFuture) -> None:
        self._pending.add(future)
        try:
            queued = self._producer.queue_prepared(prepared)
        except ClientError as problem:
            self._fail(prepared, future, problem)
            return
        if queued is None:
            # The task is kept by its callback, and the callback by the loop.
            task = asyncio.get_running_loop().create_task(self._wait(prepared))
            task.add_done_callback(lambda done: self._end(prepared, future, done))
        else:
            queued.add_done_callback(lambda done: self._end(prepared, future, done))

    async def _wait(self, prepared: OutgoingRecord) -> Delivered:
        return await (await self._producer.send_prepared(prepared))

    def _end(self, prepared: OutgoingRecord, future: SendFuture, done: asyncio.Future[Delivered]) -> None:
        if done.cancelled():
            self._fail(prepared, future, ClientError("the client was closed before the record was stored"))
        elif (problem := done.exception()) is not None:
            self._fail(prepared, future, problem)
        else:
            self._answered(future)
            if future.set_running_or_notify_cancel():
                future.set_result(done.result())

    def _fail(self, prepared: OutgoingRecord, future: SendFuture, problem: BaseException) -> None:
        self._answered(future)
        if not future.set_running_or_notify_cancel():
            return
        future.set_exception(problem)
        partition = -1 if prepared.partition is None else prepared.partition
        error = problem if isinstance(problem, Exception) else ClientError(repr(problem))
        self._failures.add(SendFailure(prepared.topic, partition, error), future)

    def _answered(self, future: SendFuture) -> None:
        self._pending.discard(future)
        self._room.release()

    async def _flush(self) -> None:
        await self._drain()
        if (failed := self._failures.take()) is not None:
            raise failed

    async def _drain(self) -> None:
        while self._pending:
            await self._producer.drain()
            # What was answered just now is told to its future in the next turn of the loop.
            await asyncio.sleep(0)

    async def _close(self) -> None:
        try:
            await self._flush()
        finally:
            self._failures.close()
            await self._producer.close()


class Transaction:
    """One transaction: leaving the block commits it, an exception aborts it.

    with producer.transaction() as transaction:
        transaction.send("orders", "hello")
    """

    def __init__(self, loop: BackgroundLoop, transaction: AsyncTransaction) -> None:
        self._loop = loop
        self._transaction = transaction

    def send(self, topic: str, value: bytes | str | None = None, **fields: Unpack[SendFields]) -> None:
        """Send a record as part of the transaction; arguments are those of the producer's `send`.

        transaction.send("orders", "hello", key="customer-7")
        """
        self._loop.run(self._send(topic, value, fields))

    def ack(self, *messages: QueueMessage) -> None:
        """Acknowledge messages of a queue if the transaction is committed; until it ends they are not redelivered.

        transaction.ack(message)
        """
        self._loop.run(self._transaction.ack(*messages))

    def reject(self, *messages: QueueMessage, error: str | None = None, reason: str | None = None) -> None:
        """Send messages of a queue to the dead letters if the transaction is committed.

        transaction.reject(message, error="unknown currency")
        """
        self._loop.run(self._transaction.reject(*messages, error=error, reason=reason))

    def send_offsets(self, consumer: Consumer, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit a consumer's offsets with the transaction: all that it has returned, or the offsets given.

        transaction.send_offsets(consumer)
        """
        self._loop.run(self._transaction.send_offsets(consumer.asynchronous, offsets))

    async def _send(self, topic: str, value: bytes | str | None, fields: SendFields) -> None:
        await self._transaction.send(topic, value, **fields)

    def __enter__(self) -> Self:
        self._loop.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._transaction.__aexit__(kind, error, trace))
