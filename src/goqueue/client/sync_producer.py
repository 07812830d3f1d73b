"""A producer and its transactions without `await`."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from goqueue.client.producer import Producer as AsyncProducer
from goqueue.client.sync_consumers import Consumer
from goqueue.client.sync_loop import BackgroundLoop, Closable
from goqueue.client.transaction import Transaction as AsyncTransaction
from goqueue.client.types import Delivered, QueueMessage
from goqueue.records import TopicPartition


class Producer(Closable):
    """Sends records; `send` returns a future from `concurrent.futures`."""

    def __init__(self, loop: BackgroundLoop, producer: AsyncProducer) -> None:
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


class Transaction:
    """One transaction: leaving the block commits it, an exception aborts it."""

    def __init__(self, loop: BackgroundLoop, transaction: AsyncTransaction) -> None:
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
