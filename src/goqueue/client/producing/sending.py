"""Batches under way: one per partition at a time, under the producer's id and sequence.

So a repeated request is recognised by the broker and stores nothing twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from goqueue.client.errors import BrokerUnreachable, ClientError, DeliveryUnknown, RequestRefused
from goqueue.client.producing.accumulator import Batch
from goqueue.client.producing.outgoing import PublishReply, Refused, Waiting, fail, tell
from goqueue.client.producing.transaction import TransactionSession
from goqueue.client.reconnect import Reconnect
from goqueue.client.transport import Transport, quoted
from goqueue.records import TopicPartition

# Where records with deduplication ids wait: they are recognised by those, so they carry no sequence, and the
# broker may choose each one's partition.
ANY_PARTITION = -1
# Where delayed records wait: they get their partition, and their place in it, when they are due.
HELD_BACK = -2

# Answers that are about what a batch holds: nothing of it was stored.
_BLAMES_RECORDS = frozenset({400, 413})
# Answers after which the broker no longer takes our sequences: begin again under a new id.
_LOST_IDENTITY = frozenset({"producer_fenced", "unknown_producer_id", "out_of_order_sequence", "duplicate_sequence"})
_SERVER_ERROR = 500


@dataclass(slots=True)
class _Lane:
    """One partition: the batches queued for it and the sequence of the next."""

    queue: deque[Batch[Waiting]]
    identity: tuple[int, int] | None = None
    sequence: int = 0
    sender: asyncio.Task[None] | None = None


class Sending:
    """Sends a producer's batches, and resolves every record's future.

    `join` adds a batch to one that still waits, if there is room; `answered` hears how many records have
    their answer, `on_refused` of each that is not stored.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        acks: str | None,
        delivery_timeout_s: float,
        session: TransactionSession | None,
        join: Callable[[Batch[Waiting], Batch[Waiting]], bool],
        answered: Callable[[int], Awaitable[None]],
        on_refused: Refused,
    ) -> None:
        self._transport = transport
        self._acks = acks
        self._reconnect = Reconnect("a producer", delivery_timeout_s)
        self._session = session
        self._join = join
        self._answered = answered
        self._on_refused = on_refused
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._identity: tuple[int, int] | None = None
        self._identity_lock = asyncio.Lock()

    def dispatch(self, batches: list[Batch[Waiting]]) -> None:
        """Let these go, each behind what goes to the same partition already."""
        for batch in batches:
            lane = self._lanes.get(batch.target)
            if lane is None:
                lane = self._lanes[batch.target] = _Lane(deque())
            # Behind a batch that is under way there is time to fill up: fewer requests, and nothing goes later.
            if not (lane.queue and self._join(lane.queue[-1], batch)):
                lane.queue.append(batch)
            if lane.sender is None:
                lane.sender = asyncio.create_task(self._drain(lane))

    async def _drain(self, lane: _Lane) -> None:
        """Send a partition's batches one after the other, until none is left."""
        try:
            while lane.queue:
                batch = lane.queue.popleft()
                try:
                    await self._deliver(lane, batch)
                except asyncio.CancelledError:
                    self._give_up(batch, DeliveryUnknown("the producer was cancelled while a batch was under way"))
                    raise
                except RequestRefused as refused:
                    await self._one_by_one(lane, batch, refused)
                except ClientError as problem:
                    self._give_up(batch, problem)
                except Exception as error:
                    # Nobody waits for this task: a batch that it dropped in silence would be taken for sent.
                    self._give_up(batch, ClientError(f"the batch could not be sent: {error!r}"))
                    raise
                finally:
                    await self._answered(len(batch.records))
        finally:
            lane.sender = None

    async def _one_by_one(self, lane: _Lane, batch: Batch[Waiting], refused: RequestRefused) -> None:
        """One bad record has its whole batch refused: its neighbours are sent by themselves, in their order."""
        if self._session is not None or len(batch.records) == 1 or refused.status not in _BLAMES_RECORDS:
            self._give_up(batch, refused)
            return
        for waiting in batch.records:
            alone = Batch(batch.target, batch.opened_ms, [waiting], batch.bytes)
            try:
                await self._deliver(lane, alone)
            except ClientError as problem:
                self._give_up(alone, problem)

    def _give_up(self, batch: Batch[Waiting], problem: ClientError) -> None:
        if self._session is not None:
            self._session.failed(problem)
        fail(batch, problem, self._on_refused)

    async def _deliver(self, lane: _Lane, batch: Batch[Waiting]) -> None:
        if batch.target.partition < 0:
            await self._deliver_unnumbered(batch)
            return
        identity = await self._identify()
        if lane.identity != identity:
            lane.identity, lane.sequence = identity, 0
        producer_id, epoch = identity
        body = {
            "messages": [waiting.message for waiting in batch.records],
            **self._asked_acks(),
            "partition": batch.target.partition,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "sequence": lane.sequence,
        }
        if self._session is not None:
            body["transaction_id"] = self._session.transaction_id
        try:
            reply = await self._publish(batch.target.topic, body)
        except BrokerUnreachable as problem:
            self._forget(identity)
            raise DeliveryUnknown(str(problem)) from problem
        except RequestRefused as refused:
            # Of a broker that fails, an attempt may be stored all the same: the next batch would be taken for it.
            if refused.code in _LOST_IDENTITY or refused.status >= _SERVER_ERROR:
                self._forget(identity)
            raise
        lane.sequence = (lane.sequence + len(batch.records)) & 0x7FFFFFFF
        tell(batch, reply, self._on_refused)

    async def _deliver_unnumbered(self, batch: Batch[Waiting]) -> None:
        """Records that carry no sequence; each has a fate of its own.

        Those with ids are recognised by them. Delayed ones are not recognised, so they are sent once only.
        """
        topic = batch.target.topic
        body = {"messages": [waiting.message for waiting in batch.records], **self._asked_acks()}
        try:
            if batch.target.partition == ANY_PARTITION:
                reply = await self._publish(topic, body)
            else:
                reply = await self._publish_once(topic, body, repeatable=False)
        except BrokerUnreachable as problem:
            raise DeliveryUnknown(str(problem)) from problem
        tell(batch, reply, self._on_refused)

    async def _publish(self, topic: str, body: dict[str, Any]) -> PublishReply:
        """Send records that the broker recognises if it has them, while it is away until the delivery timeout."""
        return await self._reconnect.until_it_works(lambda: self._publish_once(topic, body, repeatable=True))

    async def _publish_once(self, topic: str, body: dict[str, Any], *, repeatable: bool) -> PublishReply:
        path = f"/topics/{quoted(topic)}/messages"
        return await self._transport.call("POST", path, PublishReply, body=body, repeatable=repeatable)

    def _asked_acks(self) -> dict[str, str]:
        acks = "all" if self._session is not None else self._acks
        return {} if acks is None else {"acks": acks}

    async def _identify(self) -> tuple[int, int]:
        if self._session is not None and self._session.identity is not None:
            return self._session.identity
        if self._identity is None:
            async with self._identity_lock:
                if self._identity is None:
                    # A lost answer wastes one id and harms nobody, so this may be repeated.
                    reply = await self._transport.call(
                        "POST", "/producers/init", dict[str, Any], body={}, repeatable=True
                    )
                    self._identity = (reply["producer_id"], reply["epoch"])
        return self._identity

    def _forget(self, identity: tuple[int, int]) -> None:
        # What the broker holds of our sequences is unknown now, so the next batch begins under a new id.
        # Another lane may have begun again already: its new id must not be thrown away with the old one.
        if self._identity == identity:
            self._identity = None
