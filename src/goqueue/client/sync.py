"""The client without `await`: the same objects, run by a loop in a background thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from goqueue.client import connection
from goqueue.client.connection import Row
from goqueue.client.queue_consumer import QueueConsumer as AsyncQueueConsumer
from goqueue.client.sync_consumers import Consumer, QueueConsumer
from goqueue.client.sync_delayed import DelayedMessages, Schedules
from goqueue.client.sync_loop import BackgroundLoop, Closable
from goqueue.client.sync_producer import Producer, Transaction
from goqueue.client.types import Message

__all__ = ["Client", "Consumer", "Producer", "QueueConsumer", "Transaction", "connect"]


def connect(server: str = "http://127.0.0.1:8080", **options: Any) -> Client:
    """A client whose calls block."""
    return Client(server, **options)


class Client(Closable):
    """Topics, groups, reads, producers and consumers of one broker, in blocking calls."""

    def __init__(self, server: str, **options: Any) -> None:
        self._loop = BackgroundLoop()
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

    def reliability_stats(self, topic: str | None = None) -> Row:
        """Leases, settlements, retries and dead letters since the broker was started, of one topic or of all."""
        return self._loop.run(self._client.reliability_stats(topic))

    def priority_stats(self, topic: str | None = None) -> Row:
        """What waits in the lanes, of one topic or of all, and how they are served."""
        return self._loop.run(self._client.priority_stats(topic))

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
