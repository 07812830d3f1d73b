"""Transactions of a producer: all that is sent in one counts together, or not at all.

    producer = client.producer(transactional_id="billing-1")
    async with producer.transaction(consumer) as transaction:
        for message in await consumer.poll():
            await transaction.send("invoices", work_on(message))

Leaving the block commits, with how far the consumer is; an exception aborts, and the consumer
reads again what it had handed out. Every request names its transaction, so one that
the network delivers late is refused and cannot become part of the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from goqueue.client.background import end_task
from goqueue.client.errors import (
    ClientError,
    ProducerFenced,
    RequestRefused,
    TransactionAborted,
    TransactionUnknown,
)
from goqueue.client.queues.settling import one_name
from goqueue.client.reconnect import PASSING, Reconnect
from goqueue.client.transport import Transport
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.client.consuming.consumer import Consumer
    from goqueue.client.producing.outgoing import SendFields
    from goqueue.client.producing.producer import Producer
    from goqueue.client.types import Delivered, QueueMessage

# What a begin is answered while a transaction of the producer is open.
_IS_OPEN = "invalid_transaction_state"
_SERVER_ERROR = 500
_FENCED = frozenset({"transaction_fenced", "producer_fenced", "invalid_producer_id_mapping"})


class TransactionSession:
    """A producer's transactional id: who we are to the broker, and the transaction that is open."""

    def __init__(self, transport: Transport, transactional_id: str, timeout_ms: int, delivery_timeout_s: float) -> None:
        self._transport = transport
        # While a coordinator is away, or another one takes over, requests are sent again for so long.
        self._reconnect = Reconnect("a transactional producer", delivery_timeout_s)
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._heartbeat_ms = 3_000
        self._heart: asyncio.Task[None] | None = None
        self.identity: tuple[int, int] | None = None
        self.transaction_id: str | None = None
        # The first thing that went wrong in the open transaction: it can only be aborted then.
        self.problem: ClientError | None = None
        self.is_fenced = False

    async def begin(self) -> None:
        """Begin a transaction, under a new epoch if the last one went wrong."""
        self.check_usable()
        if self.transaction_id is not None:
            raise ClientError("a transaction of this producer is open: a producer has one at a time")
        self.problem = None
        try:
            self.transaction_id = await self._begun()
        except ClientError:
            # It may have begun: the next epoch will abort it.
            self.identity = None
            raise
        self._heart = asyncio.create_task(self._beat())

    async def add_offsets(self, group: str, offsets: Mapping[TopicPartition, int], member: Mapping[str, Any]) -> None:
        """Make offsets of a group part of the transaction."""
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[str(partition)] = offset
        body = {**self._ids(), "group": group, "offsets": by_topic, **member}
        try:
            await self._call("/transactions/offsets", body)
        except ClientError as problem:
            self.failed(problem)
            raise

    async def settle(self, receipts: Sequence[str], action: str, error: str | None = None) -> None:
        """Make receipts of a queue part of the transaction."""
        body = {**self._ids(), "receipts": list(receipts), "action": action, "error": error}
        try:
            await self._call("/transactions/ack", body)
        except ClientError as problem:
            self.failed(problem)
            raise

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; afterwards no transaction is open, whatever came of it."""
        await end_task(self._heart)
        ids = self._ids()
        went_wrong = self.problem is not None
        self.transaction_id = None
        try:
            # Asking again is answered the same, so this may be repeated. An abort need not arrive.
            if commit:
                await self._call("/transactions/commit", ids)
            else:
                await self._once("/transactions/abort", ids)
        except ClientError:
            self.identity = None
            raise
        if went_wrong:
            # What the broker holds of our sequences is not known.
            self.identity = None

    def check_usable(self) -> None:
        """Refuse to go on for a producer that another one has replaced."""
        if self.is_fenced:
            raise ProducerFenced(
                f"another producer has taken {self._transactional_id!r} over, or a transaction took too long"
            )

    def failed(self, problem: ClientError) -> None:
        """Something of the open transaction did not reach the broker."""
        if isinstance(problem, RequestRefused) and problem.code in _FENCED:
            self.is_fenced = True
        if self.problem is None:
            self.problem = problem

    async def close(self) -> None:
        """Abort what is open."""
        if self.transaction_id is not None:
            with suppress(ClientError):
                await self.end(commit=False)

    async def _begun(self) -> str:
        if self.identity is None:
            body = {"transactional_id": self._transactional_id, "transaction_timeout_ms": self._timeout_ms}
            # A lost answer wastes one epoch and harms nobody, so this may be repeated.
            reply = await self._call("/producers/init", body)
            self.identity = (reply["producer_id"], reply["epoch"])
            self._heartbeat_ms = reply.get("heartbeat_interval_ms", self._heartbeat_ms)
        try:
            reply = await self._call("/transactions/begin", self._ids())
        except RequestRefused as refused:
            if refused.code != _IS_OPEN:
                raise
            # It was begun by a request whose answer was lost. Its number is not known, and nothing was sent in it.
            await self._call("/transactions/abort", self._ids())
            reply = await self._call("/transactions/begin", self._ids())
        return str(reply["transaction_id"])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_ms / 1000)
            producer_id, epoch = self.identity or (-1, -1)
            body = {"transactional_id": self._transactional_id, "epoch": epoch}
            try:
                await self._once(f"/producers/{producer_id}/heartbeat", body)
            except PASSING:
                # While the broker is away we keep beating: the session may outlive the gap.
                continue
            except RequestRefused as refused:
                self.failed(refused)
            except ClientError:
                continue

    def _ids(self) -> dict[str, Any]:
        producer_id, epoch = self.identity or (-1, -1)
        ids = {"transactional_id": self._transactional_id, "producer_id": producer_id, "epoch": epoch}
        return ids if self.transaction_id is None else {**ids, "transaction_id": self.transaction_id}

    async def _call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._reconnect.until_it_works(lambda: self._once(path, body))

    async def _once(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._transport.call("POST", path, dict[str, Any], body=body, repeatable=True)
        except RequestRefused as refused:
            if refused.code in _FENCED:
                self.is_fenced = True
            raise


class Transaction:
    """One transaction: leaving the block commits it, an exception aborts it."""

    def __init__(self, producer: Producer, session: TransactionSession, consumer: Consumer | None = None) -> None:
        self._producer = producer
        self._session = session
        self._consumer = consumer
        # By consumer, the offsets that the commit makes true.
        self._offsets: dict[Consumer, dict[TopicPartition, int]] = {} if consumer is None else {consumer: {}}

    async def send(
        self, topic: str, value: bytes | str | None = None, **fields: Unpack[SendFields]
    ) -> asyncio.Future[Delivered]:
        """Send a record as part of the transaction; arguments are those of the producer's `send`.

        await transaction.send("orders", "hello", key="customer-7")
        """
        return await self._producer.send(topic, value, **fields)

    async def send_offsets(self, consumer: Consumer, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit a consumer's offsets with the transaction: all that it has returned, or the offsets given.

        await transaction.send_offsets(consumer)
        """
        known = self._offsets.setdefault(consumer, {})
        wanted = consumer.handed_out() if offsets is None else offsets
        if wanted:
            await self._session.add_offsets(consumer.group, wanted, consumer.membership())
            known.update(wanted)

    async def ack(self, *messages: QueueMessage) -> None:
        """Acknowledge messages of a queue if the transaction is committed; until it ends they are not redelivered.

        await transaction.ack(message)
        """
        await self._session.settle([message.receipt for message in messages], "ack")

    async def reject(self, *messages: QueueMessage, error: str | None = None, reason: str | None = None) -> None:
        """Send messages of a queue to the dead letters if the transaction is committed.

        await transaction.reject(message, error="unknown currency")
        """
        await self._session.settle([message.receipt for message in messages], "reject", one_name(error, reason))

    async def __aenter__(self) -> Self:
        if self._consumer is not None:
            self._consumer.check_manual()
        await self._session.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._producer.flush()
            if error is None and self._consumer is not None:
                await self.send_offsets(self._consumer)
        except ClientError as unsent:
            # Whoever raised it: what was not sent, records or offsets, would be missing in the transaction.
            self._session.failed(unsent)
        problem = self._session.problem
        if error is None and problem is None:
            await self._commit()
            return
        # If it cannot be said, the broker aborts it when the session ends, or when we come back.
        with suppress(ClientError):
            await self._session.end(commit=False)
        self._rewind()
        if error is None:
            self._session.check_usable()
            raise TransactionAborted(
                f"not all of the transaction could be sent, so it was aborted: {problem}"
            ) from problem

    async def _commit(self) -> None:
        try:
            await self._session.end(commit=True)
        except PASSING as problem:
            # Also of a coordinator that has lost its place: it may have written the decision before.
            raise TransactionUnknown(f"the commit was sent and not answered: {problem}") from problem
        except RequestRefused as refused:
            if refused.status >= _SERVER_ERROR:
                raise TransactionUnknown(f"the coordinator failed while it committed: {refused}") from refused
            self._rewind()
            self._session.check_usable()
            raise TransactionAborted(f"the transaction was not committed: {refused}") from refused
        for consumer, offsets in self._offsets.items():
            consumer.committed_elsewhere(offsets)

    def _rewind(self) -> None:
        for consumer in self._offsets:
            consumer.rewind()
