"""The client without `await`: the same objects, run by a loop in a background thread.

with goqueue.client.sync.connect("http://127.0.0.1:8080") as client:
    with client.producer() as producer:
        producer.send("orders", "hello")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Unpack
from weakref import WeakSet

from goqueue.client import connection
from goqueue.client.admin.dead_letter_replies import Redrive as AsyncRedrive
from goqueue.client.admin.dead_letter_replies import RedriveState
from goqueue.client.admin.requests import RedriveFields
from goqueue.client.blocking.calls import blocking, iterating
from goqueue.client.blocking.consumers import Consumer, QueueConsumer
from goqueue.client.blocking.delayed import DelayedMessages, Schedules
from goqueue.client.blocking.loop import BackgroundLoop, Closable
from goqueue.client.blocking.producer import Producer, Transaction
from goqueue.client.connection import Client as AsyncClient
from goqueue.client.durations import Duration, or_ms
from goqueue.client.errors import SendFailed
from goqueue.client.options import ConsumerFields, ProducerFields, QueueFields
from goqueue.client.queues.queue_consumer import QueueConsumer as AsyncQueueConsumer
from goqueue.client.retry import RetryPolicy

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

    def __init__(self, client: AsyncClient) -> None:
        self._loop = BackgroundLoop()
        self._inner = client
        self._producers: WeakSet[Producer] = WeakSet()
        self._loop.closing.append(self._inner.close)
        self.delayed = DelayedMessages(self._loop, self._inner.delayed)
        self.schedules = Schedules(self._loop, self._inner.schedules)

    def producer(self, **options: Unpack[ProducerFields]) -> Producer:
        """A producer; options are those of `ProducerOptions`.

        with client.producer(acks="all", linger="20ms") as producer:
            producer.send("orders", "hello")
        """
        producer = self._loop.run(self._open_producer(options))
        self._producers.add(producer)
        return producer

    def consumer(self, group: str, topics: Iterable[str], **options: Unpack[ConsumerFields]) -> Consumer:
        """A member of `group`; options are those of `ConsumerOptions`.

        with client.consumer("billing", ["orders"]) as consumer:
            for message in consumer:
                print(message.text)
        """
        return self._loop.run(self._open_consumer(group, topics, options))

    def queue(self, topic: str, *, group: str = "default", **options: Unpack[QueueFields]) -> QueueConsumer:
        """A queue over one topic, without joining anything; options are those of `QueueOptions`.

        with client.queue("orders", group="workers", visibility="1m") as queue:
            for message in queue:
                queue.ack(message)
        """
        return self._loop.run(self._open_queue(lambda: self._inner.queue(topic, group=group, **options)))

    def queue_consumer(self, group: str, topics: Iterable[str], **options: Unpack[QueueFields]) -> QueueConsumer:
        """A member of the queue group `group`; options are those of `QueueOptions`.

        with client.queue_consumer("workers", ["orders", "refunds"], sharing="shared") as queue:
            queue.run(handle, concurrency=8)
        """
        return self._loop.run(self._open_queue(lambda: self._inner.queue_consumer(group, topics, **options)))

    # --- reads ---------------------------------------------------------------------------

    read = blocking(AsyncClient.read)
    read_lanes = blocking(AsyncClient.read_lanes)
    offset_at = blocking(AsyncClient.offset_at)
    tail = iterating(AsyncClient.tail)

    # --- administration ------------------------------------------------------------------

    create_topic = blocking(AsyncClient.create_topic)
    topics = blocking(AsyncClient.topics)
    topic = blocking(AsyncClient.topic)
    alter_topic = blocking(AsyncClient.alter_topic)
    delete_topic = blocking(AsyncClient.delete_topic)
    groups = blocking(AsyncClient.groups)
    group = blocking(AsyncClient.group)
    group_offsets = blocking(AsyncClient.group_offsets)
    reset_offsets = blocking(AsyncClient.reset_offsets)
    evict = blocking(AsyncClient.evict)
    delete_group = blocking(AsyncClient.delete_group)
    settle = blocking(AsyncClient.settle)
    policy = blocking(AsyncClient.policy)
    alter_policy = blocking(AsyncClient.alter_policy)
    reliability_stats = blocking(AsyncClient.reliability_stats)
    priority_stats = blocking(AsyncClient.priority_stats)
    dead_letters = blocking(AsyncClient.dead_letters)
    cancel_redrive = blocking(AsyncClient.cancel_redrive)
    purge_dead_letters = blocking(AsyncClient.purge_dead_letters)
    transactions = blocking(AsyncClient.transactions)
    transaction = blocking(AsyncClient.transaction)
    abort_transaction = blocking(AsyncClient.abort_transaction)
    writers = blocking(AsyncClient.writers)
    writer = blocking(AsyncClient.writer)
    abort_epoch = blocking(AsyncClient.abort_epoch)
    get = blocking(AsyncClient.get)
    request = blocking(AsyncClient.request)
    story = blocking(AsyncClient.story)
    traces = blocking(AsyncClient.traces)
    trace = blocking(AsyncClient.trace)
    search_traces = blocking(AsyncClient.search_traces)
    trace_stats = blocking(AsyncClient.trace_stats)

    def redrive(self, topic: str, **request: Unpack[RedriveFields]) -> Redrive:
        """Send dead letters back to their topic: `client.redrive("orders").wait()` waits for the end."""
        begun = self._loop.run(self._inner.redrive(topic, **request))
        return Redrive(begun, lambda: self._loop.run(begun.wait()))

    def close(self) -> None:
        """Close producers, consumers, connections and the background thread; raises as a producer's `close` does.

        A second close does no harm.

        client = connect("http://127.0.0.1:8080")
        try:
            print(client.topics())
        finally:
            client.close()
        """
        if self._loop.closed:
            return
        failed: SendFailed | None = None
        for producer in list(self._producers):
            try:
                producer.close()
            except SendFailed as problem:
                failed = failed or problem
        self._loop.run(self._inner.close())
        self._loop.close()
        if failed is not None:
            raise failed

    async def _open_producer(self, options: ProducerFields) -> Producer:
        return Producer(self._loop, self._inner.producer(**options))

    async def _open_consumer(self, group: str, topics: Iterable[str], options: ConsumerFields) -> Consumer:
        consumer = self._inner.consumer(group, topics, **options)
        await consumer.start()
        return Consumer(self._loop, consumer)

    async def _open_queue(self, open_it: Callable[[], AsyncQueueConsumer]) -> QueueConsumer:
        queue = open_it()
        await queue.start()
        return QueueConsumer(self._loop, queue)
