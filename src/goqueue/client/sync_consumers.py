"""Consumers of streams and of queues without `await`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from goqueue.client.consumer import Consumer as AsyncConsumer
from goqueue.client.queue_consumer import QueueConsumer as AsyncQueueConsumer
from goqueue.client.sync_loop import BackgroundLoop, Closable
from goqueue.client.types import Message, QueueMessage, Settled
from goqueue.records import TopicPartition


class Consumer(Closable):
    """Reads topics as a member of a group; iterate over it, or call `poll`."""

    def __init__(self, loop: BackgroundLoop, consumer: AsyncConsumer) -> None:
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


class QueueConsumer(Closable):
    """Takes messages from a queue and settles each; iterate over it, or call `receive`."""

    def __init__(self, loop: BackgroundLoop, queue: AsyncQueueConsumer) -> None:
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
