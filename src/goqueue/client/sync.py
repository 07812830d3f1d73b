"""The client without `await`: the same objects, run by a loop in a background thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from goqueue.client import connection
from goqueue.client.connection import Row
from goqueue.client.consumer import Consumer as AsyncConsumer
from goqueue.client.producer import Producer as AsyncProducer
from goqueue.client.queue_consumer import QueueConsumer as AsyncQueueConsumer
from goqueue.client.sync_delayed import DelayedMessages, Schedules
from goqueue.client.transaction import Transaction as AsyncTransaction
from goqueue.client.types import Delivered, Message, QueueMessage, Settled
from goqueue.records import TopicPartition

T = TypeVar("T")


def connect(server: str = "http://127.0.0.1:8080", **options: Any) -> Client:
    """A client whose calls block."""
    return Client(server, **options)


class _Loop:
    """An event loop that lives in a thread of its own until closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="goqueue-client", daemon=True)
        self._thread.start()
        # Also when it is dropped, or the program ends: what still runs on it is ended, not torn off.
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._end = weakref.finalize(self, _end_loop, self._loop, self._thread, self.closing)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        self._end()


def _end_loop(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, closing: list[Callable[[], Coroutine[Any, Any, None]]]
) -> None:
    async def cancel_all() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.gather(*(close() for close in closing), return_exceptions=True)
        loop.stop()

    asyncio.run_coroutine_threadsafe(cancel_all(), loop)
    # The collector may call from the loop's own thread: it can stop itself, but not wait for itself.
    if threading.current_thread() is not thread:
        thread.join()
        loop.close()


class Client:
    """Topics, groups, reads, producers and consumers of one broker, in blocking calls."""

    def __init__(self, server: str, **options: Any) -> None:
        self._loop = _Loop()
        self._client = connection.connect(server, **options)
        self._loop.closing.append(self._client.close)
        self.delayed = DelayedMessages(self._loop.run, self._client.delayed)
        self.schedules = Schedules(self._loop.run, self._client.schedules)

    def producer(self, **options: Any) -> Producer:
        """A producer; options are those of `ProducerOptions`."""
        return self._loop.run(self._open_producer(options))

    def consumer(self, group: str, topics: Iterable[str], **options: Any) -> Consumer:
        """A member of `group`; options are those of `ConsumerOptions`."""
        return self._loop.run(self._open_consumer(group, topics, options))

    def queue(self, topic: str, *, group: str = "default", **options: Any) -> QueueConsumer:
        """A queue over one topic, without joining anything; options are those of `QueueOptions`."""
        return self._loop.run(self._open_queue(lambda: self._client.queue(topic, group=group, **options)))

    def queue_consumer(self, group: str, topics: Iterable[str], **options: Any) -> QueueConsumer:
        """A member of the queue group `group`; options are those of `QueueOptions`."""
        return self._loop.run(self._open_queue(lambda: self._client.queue_consumer(group, topics, **options)))

    def read(self, topic: str, partition: int, **options: Any) -> tuple[list[Message], int]:
        """Read without a group or state."""
        return self._loop.run(self._client.read(topic, partition, **options))

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first message at or after a time; the end when there is none."""
        return self._loop.run(self._client.offset_at(topic, partition, timestamp_ms))

    def create_topic(self, name: str, **options: Any) -> Row:
        """Create a topic."""
        return self._loop.run(self._client.create_topic(name, **options))

    def topics(self, *, internal: bool = False) -> list[Row]:
        """Name, partitions and kind of every topic."""
        return self._loop.run(self._client.topics(internal=internal))

    def topic(self, name: str) -> Row:
        """One topic: its settings, sizes and offsets."""
        return self._loop.run(self._client.topic(name))

    def alter_topic(self, name: str, **options: Any) -> Row:
        """Change settings or add partitions."""
        return self._loop.run(self._client.alter_topic(name, **options))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all in it."""
        self._loop.run(self._client.delete_topic(name))

    def groups(self) -> list[Row]:
        """Every group with its state."""
        return self._loop.run(self._client.groups())

    def group(self, group: str) -> Row:
        """One group: members, assignments, offsets, lag."""
        return self._loop.run(self._client.group(group))

    def group_offsets(self, group: str) -> Row:
        """Committed offsets and lag by topic and partition."""
        return self._loop.run(self._client.group_offsets(group))

    def reset_offsets(self, group: str, **request: Any) -> Row:
        """Move an inactive group's offsets."""
        return self._loop.run(self._client.reset_offsets(group, **request))

    def delete_group(self, group: str) -> None:
        """Forget a group that has no members."""
        self._loop.run(self._client.delete_group(group))

    def policy(self, group: str, *, topic: str | None = None) -> Row:
        """How a queue group's messages are delivered, of one topic or of any."""
        return self._loop.run(self._client.policy(group, topic=topic))

    def alter_policy(self, group: str, **changes: Any) -> Row:
        """Change a queue group's policy; None takes an override away."""
        return self._loop.run(self._client.alter_policy(group, **changes))

    def reliability_stats(self) -> Row:
        """Leases, settlements, retries and dead letters since the broker was started."""
        return self._loop.run(self._client.reliability_stats())

    def priority_stats(self) -> Row:
        """What waits in the lanes, and how they are served."""
        return self._loop.run(self._client.priority_stats())

    def dead_letters(self, topic: str, **params: Any) -> Row:
        """Dead letters of a topic."""
        return self._loop.run(self._client.dead_letters(topic, **params))

    def redrive(self, topic: str, **request: Any) -> Row:
        """Send dead letters back to their topic."""
        return self._loop.run(self._client.redrive(topic, **request))

    def purge_dead_letters(self, topic: str) -> Row:
        """Delete all dead letters of a topic."""
        return self._loop.run(self._client.purge_dead_letters(topic))

    def get(self, path: str, **params: str) -> Row:
        """Any read-only route that has no method of its own."""
        return self._loop.run(self._client.get(path, **params))

    def close(self) -> None:
        """Close connections and the background thread. A second close does no harm."""
        if not self._loop.closed:
            self._loop.run(self._client.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _open_producer(self, options: Mapping[str, Any]) -> Producer:
        return Producer(self._loop, self._client.producer(**options))

    async def _open_consumer(self, group: str, topics: Iterable[str], options: Mapping[str, Any]) -> Consumer:
        consumer = self._client.consumer(group, topics, **options)
        await consumer.start()
        return Consumer(self._loop, consumer)

    async def _open_queue(self, open_it: Callable[[], AsyncQueueConsumer]) -> QueueConsumer:
        queue = open_it()
        await queue.start()
        return QueueConsumer(self._loop, queue)


class Producer:
    """Sends records; `send` returns a future from `concurrent.futures`."""

    def __init__(self, loop: _Loop, producer: AsyncProducer) -> None:
        self._loop = loop
        self._producer = producer

    def send(self, topic: str, value: bytes | str | None, **fields: Any) -> concurrent.futures.Future[Delivered]:
        """Queue one record; the future tells its fate."""
        return self._loop.submit(self._producer.send_and_wait(topic, value, **fields))

    def send_and_wait(self, topic: str, value: bytes | str | None, **fields: Any) -> Delivered:
        """Send one record and wait until the broker has it."""
        return self.send(topic, value, **fields).result()

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """A transaction: `with` it, and all that is sent meanwhile counts together or not at all."""
        inner = None if consumer is None else consumer.asynchronous
        return Transaction(self._loop, self._producer.transaction(inner))

    def flush(self) -> None:
        """Wait until every record so far has its answer."""
        self._loop.run(self._producer.flush())

    def close(self) -> None:
        """Flush, then refuse more."""
        self._loop.run(self._producer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Transaction:
    """One transaction: leaving the block commits it, an exception aborts it."""

    def __init__(self, loop: _Loop, transaction: AsyncTransaction) -> None:
        self._loop = loop
        self._transaction = transaction

    def send(self, topic: str, value: bytes | str | None, **fields: Any) -> None:
        """As the producer's `send`; what goes wrong is raised when the block is left."""
        self._loop.run(self._transaction.send(topic, value, **fields))

    def ack(self, *messages: QueueMessage) -> None:
        """These messages of a queue are done if the transaction is committed."""
        self._loop.run(self._transaction.ack(*messages))

    def reject(self, *messages: QueueMessage, reason: str = "") -> None:
        """These messages of a queue go to the dead-letter topic if the transaction is committed."""
        self._loop.run(self._transaction.reject(*messages, reason=reason))

    def send_offsets(self, consumer: Consumer, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit how far a consumer is with the transaction."""
        self._loop.run(self._transaction.send_offsets(consumer.asynchronous, offsets))

    def __enter__(self) -> Self:
        self._loop.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._transaction.__aexit__(kind, error, trace))


class Consumer:
    """Reads topics as a member of a group; iterate over it, or call `poll`."""

    def __init__(self, loop: _Loop, consumer: AsyncConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    @property
    def asynchronous(self) -> AsyncConsumer:
        """The consumer that does the work, in the loop of the background thread."""
        return self._consumer

    def poll(self, *, limit: int | None = None, timeout_ms: int | None = None) -> list[Message]:
        """Up to `limit` messages; empty when none came in time."""
        return self._loop.run(self._consumer.poll(limit=limit, timeout_ms=timeout_ms))

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield from self.poll(limit=1)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store how far we are."""
        self._loop.run(self._consumer.commit(offsets))

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` next."""
        self._consumer.seek(at, offset)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are ours now."""
        return self._consumer.assignment

    def lag(self) -> dict[TopicPartition, int]:
        """Messages between the group's commit and the end, for our partitions."""
        return self._loop.run(self._consumer.lag())

    def close(self) -> None:
        """Commit if that is automatic, and leave the group."""
        self._loop.run(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class QueueConsumer:
    """Takes messages from a queue and settles each; iterate over it, or call `receive`."""

    def __init__(self, loop: _Loop, queue: AsyncQueueConsumer) -> None:
        self._loop = loop
        self._queue = queue

    def receive(self, *, limit: int | None = None, wait_ms: int | None = None) -> list[QueueMessage]:
        """Up to `limit` messages, waiting for the first; empty when none came in time."""
        return self._loop.run(self._queue.receive(limit=limit, wait_ms=wait_ms))

    def __iter__(self) -> Iterator[QueueMessage]:
        while True:
            yield from self.receive(limit=1)

    def ack(self, *messages: QueueMessage) -> list[Settled]:
        """These are done."""
        return self._loop.run(self._queue.ack(*messages))

    def nack(self, *messages: QueueMessage, delay_ms: int | None = None, reason: str | None = None) -> list[Settled]:
        """These failed and are to come again."""
        return self._loop.run(self._queue.nack(*messages, delay_ms=delay_ms, reason=reason))

    def reject(self, *messages: QueueMessage, reason: str) -> list[Settled]:
        """These can never succeed: they go to the dead letters."""
        return self._loop.run(self._queue.reject(*messages, reason=reason))

    def extend(self, *messages: QueueMessage, visibility_ms: int) -> list[Settled]:
        """These need so much more time, from now on."""
        return self._loop.run(self._queue.extend(*messages, visibility_ms=visibility_ms))

    def release(self, *messages: QueueMessage) -> list[Settled]:
        """Give these back at once, for anyone to take."""
        return self._loop.run(self._queue.release(*messages))

    def close(self) -> None:
        """Settle what is under way, give back what was not handed out, and leave."""
        self._loop.run(self._queue.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
