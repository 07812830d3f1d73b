"""The client without `await`: the same objects, run by a loop in a background thread.

with goqueue.client.sync.connect("http://127.0.0.1:8080") as client:
    with client.producer() as producer:
        producer.send("orders", "hello")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Unpack
from weakref import WeakSet

from goqueue.client import connection
from goqueue.client.connection import Row
from goqueue.client.durations import Duration, or_ms
from goqueue.client.errors import SendFailed
from goqueue.client.options import ConsumerFields, ProducerFields, QueueFields
from goqueue.client.queue_consumer import QueueConsumer as AsyncQueueConsumer
from goqueue.client.replies import (
    DeadLetters,
    Group,
    GroupOffsets,
    GroupPolicy,
    GroupSummary,
    Purged,
    RedriveState,
    Reset,
    Topic,
    TopicSummary,
)
from goqueue.client.replies import Redrive as AsyncRedrive
from goqueue.client.requests import LetterFields, PolicyFields, RedriveFields, ResetFields
from goqueue.client.retry import RetryPolicy
from goqueue.client.sync_consumers import Consumer, QueueConsumer
from goqueue.client.sync_delayed import DelayedMessages, Schedules
from goqueue.client.sync_loop import BackgroundLoop, Closable
from goqueue.client.sync_producer import Producer, Transaction
from goqueue.client.types import Message

__all__ = ["Client", "Consumer", "Producer", "QueueConsumer", "Redrive", "Transaction", "connect"]


def connect(
    server: str | Sequence[str] | None = None,
    *,
    context: str | None = None,
    timeout: Duration | None = None,
    api_key: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    retry: RetryPolicy | None = None,
    connections_max: int = 100,
    timeout_ms: int | None = None,
) -> Client:
    """A client whose calls block; arguments are those of `goqueue.client.connect`.

    with connect("http://127.0.0.1:8080") as client:
        print(client.topics())
    """
    return Client(
        connection.connect(
            server,
            context=context,
            timeout=or_ms(timeout, timeout_ms, "timeout", "timeout_ms"),
            api_key=api_key,
            user=user,
            password=password,
            ca=ca,
            certificate=certificate,
            retry=retry,
            connections_max=connections_max,
        )
    )


class Redrive(RedriveState):
    """A redrive that was begun: `client.redrive("orders").wait()`."""

    def __init__(self, begun: AsyncRedrive, wait: Callable[[], RedriveState]) -> None:
        super().__init__(begun)
        object.__setattr__(self, "_wait", wait)

    def wait(self) -> RedriveState:
        """Wait until it is over; returns what it did."""
        waiting: Callable[[], RedriveState] = object.__getattribute__(self, "_wait")
        return waiting()


class Client(Closable):
    """Topics, groups, reads, producers and consumers of one broker, in blocking calls."""

    def __init__(self, client: connection.Client) -> None:
        self._loop = BackgroundLoop()
        self._client = client
        self._producers: WeakSet[Producer] = WeakSet()
        self._loop.closing.append(self._client.close)
        self.delayed = DelayedMessages(self._loop.run, self._client.delayed)
        self.schedules = Schedules(self._loop.run, self._client.schedules)

    def producer(self, **options: Unpack[ProducerFields]) -> Producer:
        """A producer; options are those of `ProducerOptions`."""
        producer = self._loop.run(self._open_producer(options))
        self._producers.add(producer)
        return producer

    def consumer(self, group: str, topics: Iterable[str], **options: Unpack[ConsumerFields]) -> Consumer:
        """A member of `group`; options are those of `ConsumerOptions`."""
        return self._loop.run(self._open_consumer(group, topics, options))

    def queue(self, topic: str, *, group: str = "default", **options: Unpack[QueueFields]) -> QueueConsumer:
        """A queue over one topic, without joining anything; options are those of `QueueOptions`."""
        return self._loop.run(self._open_queue(lambda: self._client.queue(topic, group=group, **options)))

    def queue_consumer(self, group: str, topics: Iterable[str], **options: Unpack[QueueFields]) -> QueueConsumer:
        """A member of the queue group `group`; options are those of `QueueOptions`."""
        return self._loop.run(self._open_queue(lambda: self._client.queue_consumer(group, topics, **options)))

    def read(
        self,
        topic: str,
        partition: int,
        *,
        offset: int | Literal["earliest", "latest"] = "earliest",
        limit: int = 100,
        wait: Duration | None = None,
        wait_ms: int | None = None,
    ) -> tuple[list[Message], int]:
        """Read without a group or state: messages, and the offset to read on from."""
        return self._loop.run(
            self._client.read(topic, partition, offset=offset, limit=limit, wait=wait, wait_ms=wait_ms)
        )

    def read_lanes(
        self,
        topic: str,
        partition: int,
        *,
        order: Literal["priority", "fair"] = "priority",
        offset: int | Literal["earliest", "latest"] = "earliest",
        offsets: Mapping[str, int] | None = None,
        limit: int = 100,
    ) -> tuple[list[Message], dict[str, int]]:
        """Read by priority, without a group or state: messages, and by lane the offsets to read on from."""
        return self._loop.run(
            self._client.read_lanes(topic, partition, order=order, offset=offset, offsets=offsets, limit=limit)
        )

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first message at or after a time; the end when there is none."""
        return self._loop.run(self._client.offset_at(topic, partition, timestamp_ms))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic. Where it exists, that is `TopicExists`, or what it is now with `exist_ok`."""
        return self._loop.run(self._client.create_topic(name, partitions=partitions, config=config, exist_ok=exist_ok))

    def topics(self, *, internal: bool = False) -> list[TopicSummary]:
        """Name, partitions and kind of every topic."""
        return self._loop.run(self._client.topics(internal=internal))

    def topic(self, name: str) -> Topic:
        """One topic: its settings, sizes and offsets."""
        return self._loop.run(self._client.topic(name))

    def alter_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str | None] | None = None
    ) -> Topic:
        """Change settings (None takes an override away) or add partitions."""
        return self._loop.run(self._client.alter_topic(name, partitions=partitions, config=config))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all in it."""
        self._loop.run(self._client.delete_topic(name))

    def groups(self, *, internal: bool = False) -> list[GroupSummary]:
        """Every group with its state; with `internal`, the broker's own too."""
        return self._loop.run(self._client.groups(internal=internal))

    def group(self, group: str) -> Group:
        """One group: members, assignments, offsets, lag."""
        return self._loop.run(self._client.group(group))

    def group_offsets(self, group: str) -> GroupOffsets:
        """Committed offsets and lag by topic and partition."""
        return self._loop.run(self._client.group_offsets(group))

    def reset_offsets(self, group: str, **request: Unpack[ResetFields]) -> Reset:
        """Move an inactive group's offsets."""
        return self._loop.run(self._client.reset_offsets(group, **request))

    def evict(self, group: str, member_id: str) -> None:
        """Take a member out of its group at once; its partitions and messages go to the others."""
        self._loop.run(self._client.evict(group, member_id))

    def delete_group(self, group: str) -> None:
        """Forget a group that has no members."""
        self._loop.run(self._client.delete_group(group))

    def policy(self, group: str, *, topic: str | None = None) -> GroupPolicy:
        """How a queue group's messages are delivered, of one topic or of any."""
        return self._loop.run(self._client.policy(group, topic=topic))

    def alter_policy(self, group: str, **changes: Unpack[PolicyFields]) -> GroupPolicy:
        """Change a queue group's policy; None takes an override away."""
        return self._loop.run(self._client.alter_policy(group, **changes))

    def reliability_stats(self, topic: str | None = None) -> Row:
        """Leases, settlements, retries and dead letters since the broker was started, of one topic or of all."""
        return self._loop.run(self._client.reliability_stats(topic))

    def priority_stats(self, topic: str | None = None) -> Row:
        """What waits in the lanes, of one topic or of all, and how they are served."""
        return self._loop.run(self._client.priority_stats(topic))

    def dead_letters(self, topic: str, **params: Unpack[LetterFields]) -> DeadLetters:
        """Dead letters of a topic."""
        return self._loop.run(self._client.dead_letters(topic, **params))

    def redrive(self, topic: str, **request: Unpack[RedriveFields]) -> Redrive:
        """Send dead letters back to their topic: `client.redrive("orders").wait()` waits for the end."""
        begun = self._loop.run(self._client.redrive(topic, **request))
        return Redrive(begun, lambda: self._loop.run(begun.wait()))

    def purge_dead_letters(self, topic: str) -> Purged:
        """Delete all dead letters of a topic."""
        return self._loop.run(self._client.purge_dead_letters(topic))

    def get(self, path: str, **params: str) -> Row:
        """Any read-only route that has no method of its own."""
        return self._loop.run(self._client.get(path, **params))

    def close(self) -> None:
        """Close producers, consumers, connections and the background thread; raises as a producer's `close` does.

        A second close does no harm.
        """
        if self._loop.closed:
            return
        failed: SendFailed | None = None
        for producer in list(self._producers):
            try:
                producer.close()
            except SendFailed as problem:
                failed = failed or problem
        self._loop.run(self._client.close())
        self._loop.close()
        if failed is not None:
            raise failed

    async def _open_producer(self, options: ProducerFields) -> Producer:
        return Producer(self._loop, self._client.producer(**options))

    async def _open_consumer(self, group: str, topics: Iterable[str], options: ConsumerFields) -> Consumer:
        consumer = self._client.consumer(group, topics, **options)
        await consumer.start()
        return Consumer(self._loop, consumer)

    async def _open_queue(self, open_it: Callable[[], AsyncQueueConsumer]) -> QueueConsumer:
        queue = open_it()
        await queue.start()
        return QueueConsumer(self._loop, queue)
