"""The front door: one client for one broker, from which everything else is opened."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack
from weakref import WeakSet

from goqueue.client.admin.dead_letters import DeadLetterAdmin
from goqueue.client.admin.delayed import DelayedMessages, Schedules
from goqueue.client.admin.groups import GroupAdmin
from goqueue.client.admin.queues import QueueAdmin
from goqueue.client.admin.topics import TopicAdmin
from goqueue.client.admin.traces import TraceAdmin
from goqueue.client.admin.transactions import TransactionAdmin
from goqueue.client.connecting import open_transport
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.reads import Reads
from goqueue.client.credentials import Credentials
from goqueue.client.durations import Duration, or_ms, without_ms
from goqueue.client.errors import ClientError, SendFailed
from goqueue.client.options import (
    CONSUMER_SYNONYMS,
    PRODUCER_SYNONYMS,
    QUEUE_SYNONYMS,
    ConsumerFields,
    ConsumerOptions,
    ProducerFields,
    ProducerOptions,
    QueueFields,
    QueueOptions,
)
from goqueue.client.producing.producer import Producer
from goqueue.client.queues.queue_consumer import QueueConsumer
from goqueue.client.queues.queue_source import GroupSource, TopicSource
from goqueue.client.queues.wire import QueueWire
from goqueue.client.retry import RetryPolicy
from goqueue.client.transport import Transport

if TYPE_CHECKING:
    from goqueue.client.schemas.registry import SchemaRegistry

_log = logging.getLogger("goqueue.client")


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
    """A client for the broker at `server`, or at the first of several addresses that answers.

        async with connect("http://127.0.0.1:8080") as client:
            print(await client.topics())

    Without an address the environment (GOQUEUE_SERVER, GOQUEUE_API_KEY, GOQUEUE_TIMEOUT) and the contexts of the
    command line decide. Nothing is sent before the first call. A broker with security wants an `api_key` (or a token),
    or `user` and `password`, or a client `certificate`; `ca` is the file with the authority of its own certificate.
    """
    return Client(
        open_transport(
            server,
            context=context,
            timeout=or_ms(timeout, timeout_ms, "timeout", "timeout_ms"),
            credentials=Credentials(api_key, user, password, ca, certificate),
            retry=retry,
            connections_max=connections_max,
        )
    )


class Client(Reads, TopicAdmin, GroupAdmin, QueueAdmin, DeadLetterAdmin, TransactionAdmin, TraceAdmin):
    """Topics, groups, reads, producers and consumers of one broker."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._producers: WeakSet[Producer] = WeakSet()
        self._consumers: WeakSet[Consumer | QueueConsumer] = WeakSet()
        self._queue_wire = QueueWire(transport)
        self.delayed = DelayedMessages(transport)
        self.schedules = Schedules(transport)
        self._schemas: SchemaRegistry | None = None

    # --- producing and consuming -------------------------------------------------------

    @property
    def schemas(self) -> SchemaRegistry:
        """The schema registry: subjects, versions, compatibility."""
        if self._schemas is None:
            from goqueue.client.schemas.registry import SchemaRegistry

            self._schemas = SchemaRegistry(self._transport)
        return self._schemas

    def producer(self, **options: Unpack[ProducerFields]) -> Producer:
        """A producer; options are those of `ProducerOptions`.

        async with client.producer(acks="all", linger="20ms") as producer:
            await producer.send("orders", "hello")
        """
        self._transport.check_open()
        chosen = ProducerOptions(**without_ms(options, **PRODUCER_SYNONYMS))
        producer = Producer(self._transport, chosen)
        if chosen.schema is not None:
            from goqueue.client.schemas.typed import TypedValues

            producer.typed = TypedValues(
                self.schemas, chosen.schema, register=chosen.schema_register, subject=chosen.schema_subject
            )
        self._producers.add(producer)
        return producer

    def consumer(self, group: str, topics: Iterable[str], **options: Unpack[ConsumerFields]) -> Consumer:
        """A member of `group`; options are those of `ConsumerOptions`.

        async with client.consumer("billing", ["orders"]) as consumer:
            async for message in consumer:
                print(message.text)
        """
        self._transport.check_open()
        chosen = ConsumerOptions(**without_ms(options, **CONSUMER_SYNONYMS))
        consumer = Consumer(self._transport, group, topics, chosen)
        if chosen.schema is not None:
            from goqueue.client.schemas.typed import TypedReader

            consumer.typed = TypedReader(self.schemas, chosen.schema)
        self._consumers.add(consumer)
        return consumer

    def queue(self, topic: str, *, group: str = "default", **options: Unpack[QueueFields]) -> QueueConsumer:
        """A queue over one topic, without joining anything; options are those of `QueueOptions`.

        async with client.queue("orders", group="workers", visibility="1m") as queue:
            async for message in queue:
                await queue.ack(message)
        """
        self._transport.check_open()
        chosen = QueueOptions(**without_ms(options, **QUEUE_SYNONYMS))
        source = TopicSource(self._transport, self._queue_wire, topic, group, chosen.client_id)
        queue = QueueConsumer(self._transport, self._queue_wire, source, chosen)
        self._consumers.add(queue)
        return queue

    def queue_consumer(self, group: str, topics: Iterable[str], **options: Unpack[QueueFields]) -> QueueConsumer:
        """A member of the queue group `group`; options are those of `QueueOptions`.

        async with client.queue_consumer("workers", ["orders", "refunds"]) as queue:
            await queue.run(handle)
        """
        self._transport.check_open()
        if isinstance(topics, str):
            raise TypeError(f"topics is the string {topics!r}: give a list of names, such as [{topics!r}]")
        chosen = QueueOptions(**without_ms(options, **QUEUE_SYNONYMS))
        given = {"sharing": chosen.sharing, "key_ordered": chosen.key_ordered}
        kind = {name: one for name, one in given.items() if one is not None}
        source = GroupSource(self._transport, self._queue_wire, group, list(topics), chosen.client_id, kind)
        queue = QueueConsumer(self._transport, self._queue_wire, source, chosen)
        self._consumers.add(queue)
        return queue

    async def close(self) -> None:
        """Close producers, consumers and connections; raises `SendFailed` as a producer's `close` does.

        client = connect("http://127.0.0.1:8080")
        try:
            print(await client.topics())
        finally:
            await client.close()
        """
        failed: SendFailed | None = None
        for producer in list(self._producers):
            try:
                await producer.close()
            except SendFailed as problem:
                failed = failed or problem
        for consumer in list(self._consumers):
            try:
                await consumer.close()
            except ClientError as problem:
                _log.warning("%s was not closed properly: %s", consumer, problem)
        await self._queue_wire.close()
        await self._transport.close()
        if failed is not None:
            raise failed

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
            error.add_note(f"while the client was closed: {failed}")
