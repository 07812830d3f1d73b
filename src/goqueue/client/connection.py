"""The front door: one client for one broker, from which everything else is opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, Unpack
from weakref import WeakSet

import msgspec

from goqueue.client.connecting import open_transport
from goqueue.client.consumer import Consumer
from goqueue.client.credentials import Credentials
from goqueue.client.delayed import DelayedMessages, Schedules
from goqueue.client.durations import Duration, ms_of, or_ms, without_ms
from goqueue.client.errors import ClientError, SendFailed, TopicExists, TopicNotFound
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
from goqueue.client.producer import Producer
from goqueue.client.queue_consumer import QueueConsumer
from goqueue.client.queue_source import GroupSource, TopicSource
from goqueue.client.replies import (
    DeadLetters,
    Group,
    GroupOffsets,
    GroupPolicy,
    GroupSummary,
    Purged,
    Redrive,
    RedriveState,
    Reset,
    Topic,
    TopicSummary,
)
from goqueue.client.requests import LetterFields, PolicyFields, RedriveFields, ResetFields, TailFields, text_params
from goqueue.client.retry import RetryPolicy
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import LaneReadReply, Message, ReadReply, Settled, SettleReply, WireMessage, decode_message

Row = dict[str, Any]
_REDRIVE_POLL_S = 0.2
_CREATED_POLL_S, _CREATED_POLLS_MAX = 0.05, 100
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


class Client:
    """Topics, groups, reads, producers and consumers of one broker."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._producers: WeakSet[Producer] = WeakSet()
        self._consumers: WeakSet[Consumer | QueueConsumer] = WeakSet()
        self.delayed = DelayedMessages(transport)
        self.schedules = Schedules(transport)

    # --- producing and consuming -------------------------------------------------------

    def producer(self, **options: Unpack[ProducerFields]) -> Producer:
        """A producer; options are those of `ProducerOptions`.

        async with client.producer(acks="all", linger="20ms") as producer:
            await producer.send("orders", "hello")
        """
        self._transport.check_open()
        producer = Producer(self._transport, ProducerOptions(**without_ms(options, **PRODUCER_SYNONYMS)))
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
        source = TopicSource(self._transport, topic, group, chosen.client_id)
        queue = QueueConsumer(self._transport, source, chosen)
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
        source = GroupSource(self._transport, group, list(topics), chosen.client_id, kind)
        queue = QueueConsumer(self._transport, source, chosen)
        self._consumers.add(queue)
        return queue

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset: int | Literal["earliest", "latest"] = "earliest",
        limit: int = 100,
        wait: Duration | None = None,
        wait_ms: int | None = None,
    ) -> tuple[list[Message], int]:
        """Read without a group or state: messages, and the offset to read on from.

        messages, following = await client.read("orders", 0, offset=100, wait="1s")
        """
        wait = or_ms(wait, wait_ms, "wait", "wait_ms")
        held_ms = 0 if wait is None else ms_of(wait, "wait")
        start = {"offset": str(offset)} if isinstance(offset, int) else {"from": offset}
        reply = await self._transport.call(
            "GET",
            f"/topics/{quoted(topic)}/partitions/{partition}/messages",
            ReadReply,
            params={**start, "limit": str(limit), "wait": f"{held_ms}ms"},
            wait_ms=held_ms,
        )
        return [decode_message(wire) for wire in reply.messages], reply.next_offset

    async def read_lanes(
        self,
        topic: str,
        partition: int,
        *,
        order: Literal["priority", "fair"] = "priority",
        offset: int | Literal["earliest", "latest"] = "earliest",
        offsets: Mapping[str, int] | None = None,
        limit: int = 100,
    ) -> tuple[list[Message], dict[str, int]]:
        """Read by priority, without a group or state: messages, and by lane the offsets to read on from.

        messages, following = await client.read_lanes("orders", 0, order="fair")
        more, following = await client.read_lanes("orders", 0, order="fair", offsets=following)
        """
        start = {"offset": str(offset)} if isinstance(offset, int) else {"from": offset}
        if offsets:
            start = {"offsets": ",".join(f"{lane}:{at}" for lane, at in offsets.items())}
        path = f"/topics/{quoted(topic)}/partitions/{partition}/messages/{order}"
        reply = await self._transport.call("GET", path, LaneReadReply, params={**start, "limit": str(limit)})
        return [decode_message(wire) for wire in reply.messages], reply.next_offsets

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first message at or after a time; the end when there is none."""
        reply = await self._transport.call(
            "GET",
            f"/topics/{quoted(topic)}/partitions/{partition}/offset",
            dict[str, Any],
            params={"timestamp": str(timestamp_ms)},
        )
        return int(reply["offset"])

    async def tail(self, topic: str, **params: Unpack[TailFields]) -> AsyncIterator[Message]:
        """Follow a topic as it grows; `params` are the streaming route's."""
        given = {"format": "ndjson", **text_params(params)}
        async for line in self._transport.lines(f"/topics/{quoted(topic)}/messages/stream", given):
            yield decode_message(msgspec.json.decode(line, type=WireMessage))

    # --- topics ------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic. Where it exists, that is `TopicExists`, or what it is now with `exist_ok`.

        topic = await client.create_topic("orders", partitions=3, exist_ok=True)
        """
        body: Row = {"name": name, "config": dict(config or {})}
        if partitions is not None:
            body["num_partitions"] = partitions
        try:
            return Topic(await self._call("POST", "/topics", body))
        except TopicExists:
            if not exist_ok:
                raise
        return await self._topic_soon(name)

    async def topics(self, *, internal: bool = False) -> list[TopicSummary]:
        """Name, partitions and kind of every topic."""
        reply = await self._call("GET", "/topics", params={"internal": str(internal).lower()})
        return [TopicSummary(one) for one in reply["details"]]

    async def topic(self, name: str) -> Topic:
        """One topic: its settings, sizes and offsets.

        print((await client.topic("orders")).partitions)
        """
        return Topic(await self._call("GET", f"/topics/{quoted(name)}"))

    async def alter_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str | None] | None = None
    ) -> Topic:
        """Change settings (None takes an override away) or add partitions."""
        body: Row = {"config": dict(config or {})}
        if partitions is not None:
            body["num_partitions"] = partitions
        return Topic(await self._call("PATCH", f"/topics/{quoted(name)}", body))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all in it."""
        await self._call("DELETE", f"/topics/{quoted(name)}")

    # --- groups ------------------------------------------------------------------------

    async def groups(self, *, internal: bool = False) -> list[GroupSummary]:
        """Every group with its state; with `internal`, the broker's own too."""
        reply = await self._call("GET", "/groups", params={"internal": str(internal).lower()})
        return [GroupSummary(one) for one in reply["groups"]]

    async def group(self, group: str) -> Group:
        """One group: members, assignments, offsets, lag."""
        return Group(await self._call("GET", f"/groups/{quoted(group)}"))

    async def group_offsets(self, group: str) -> GroupOffsets:
        """Committed offsets and lag by topic and partition."""
        return GroupOffsets(await self._call("GET", f"/groups/{quoted(group)}/offsets"))

    async def reset_offsets(self, group: str, **request: Unpack[ResetFields]) -> Reset:
        """Move an inactive group's offsets.

        await client.reset_offsets("billing", topic="orders", to="earliest", dry_run=True)
        """
        return Reset(await self._call("POST", f"/groups/{quoted(group)}/offsets/reset", dict(request)))

    async def evict(self, group: str, member_id: str) -> None:
        """Take a member out of its group at once; its partitions and messages go to the others."""
        await self._call("DELETE", f"/groups/{quoted(group)}/members/{quoted(member_id)}")

    async def delete_group(self, group: str) -> None:
        """Forget a group that has no members."""
        await self._call("DELETE", f"/groups/{quoted(group)}")

    # --- queues ------------------------------------------------------------------------

    async def settle(
        self,
        action: Literal["ack", "nack", "reject", "visibility"],
        receipts: Sequence[str],
        fields: Mapping[str, Any] | None = None,
    ) -> list[Settled]:
        """Settle receipts by their text; `fields` are those of the action's route, such as `error`."""
        body = {"receipts": list(receipts), **(fields or {})}
        reply = await self._transport.call("POST", f"/messages/{action}", SettleReply, body=body, repeatable=True)
        return reply.results

    async def policy(self, group: str, *, topic: str | None = None) -> GroupPolicy:
        """How a queue group's messages are delivered, of one topic or of any."""
        params = {"topic": topic} if topic else None
        return GroupPolicy(await self._call("GET", f"/groups/{quoted(group)}/policy", params=params))

    async def alter_policy(self, group: str, **changes: Unpack[PolicyFields]) -> GroupPolicy:
        """Change a queue group's policy; None takes an override away.

        await client.alter_policy("workers", visibility_ms=60_000, retries_max=5)
        """
        return GroupPolicy(await self._call("PATCH", f"/groups/{quoted(group)}/policy", dict(changes)))

    async def reliability_stats(self, topic: str | None = None) -> Row:
        """Leases, settlements, retries and dead letters since the broker was started, of one topic or of all."""
        return await self._call("GET", "/reliability/stats", params=text_params({"topic": topic}))

    async def priority_stats(self, topic: str | None = None) -> Row:
        """What waits in the lanes, of one topic or of all, and how they are served."""
        return await self._call("GET", "/priority/stats", params=text_params({"topic": topic}))

    async def dead_letters(self, topic: str, **params: Unpack[LetterFields]) -> DeadLetters:
        """Dead letters of a topic, filtered; with `cursor`, the page after.

        for letter in (await client.dead_letters("orders", group="billing")).letters:
            print(letter.reason, letter.error)
        """
        return DeadLetters(await self._call("GET", f"/topics/{quoted(topic)}/dlq", params=text_params(params)))

    async def redrive(self, topic: str, **request: Unpack[RedriveFields]) -> Redrive:
        """Send dead letters back, each to the group in which it died; `wait()` on what this returns waits for the end.

        `all_groups=True` sends them to every group of their topic, `to="topic"` to every group of another one.

        done = await (await client.redrive("orders", reason="visibility_timeout")).wait()
        """
        path = f"/topics/{quoted(topic)}/dlq/redrive"

        async def wait() -> RedriveState:
            while not (state := RedriveState(await self._call("GET", path))).is_over:  # noqa: ASYNC110 - it is elsewhere
                await asyncio.sleep(_REDRIVE_POLL_S)
            return state

        return Redrive(await self._call("POST", path, dict(request)), wait)

    async def cancel_redrive(self, topic: str) -> RedriveState:
        """Stop a redrive; what it has sent stays sent."""
        return RedriveState(await self._call("DELETE", f"/topics/{quoted(topic)}/dlq/redrive"))

    async def purge_dead_letters(self, topic: str) -> Purged:
        """Delete all dead letters of a topic."""
        return Purged(await self._call("DELETE", f"/topics/{quoted(topic)}/dlq"))

    # --- the broker itself -------------------------------------------------------------

    async def transactions(self) -> list[Row]:
        """Transactions that are open or being ended."""
        return list((await self._call("GET", "/transactions"))["transactions"])

    async def transaction(self, transactional_id: str) -> Row:
        """What is known of a transactional id."""
        return await self._call("GET", f"/transactions/{quoted(transactional_id)}")

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id; its producer is fenced."""
        await self._call("POST", f"/transactions/{quoted(transactional_id)}/abort")

    async def writers(self) -> list[Row]:
        """Writers of prepared transactions: what they have committed, and who stages records."""
        return list((await self._call("GET", "/prepared"))["writers"])

    async def writer(self, writer: str) -> Row:
        """One writer of prepared transactions."""
        return await self._call("GET", f"/prepared/{quoted(writer)}")

    async def abort_epoch(self, writer: str, epoch: int) -> Row:
        """Abort all that is staged for an epoch of a writer."""
        return await self._call("POST", f"/prepared/{quoted(writer)}/{epoch}/abort")

    async def get(self, path: str, **params: str) -> Row:
        """Any read-only route that has no method of its own, such as `/version`."""
        return await self._call("GET", path, params=params)

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Row:
        """Any other route that has no method of its own."""
        return await self._call(method, path, body=body)

    async def close(self) -> None:
        """Close producers, consumers and connections; raises `SendFailed` as a producer's `close` does."""
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

    async def _topic_soon(self, name: str) -> Topic:
        """A topic that another client may be creating at this moment: its name is taken before it can be read."""
        for _ in range(_CREATED_POLLS_MAX):
            try:
                return await self.topic(name)
            except TopicNotFound:
                await asyncio.sleep(_CREATED_POLL_S)
        return await self.topic(name)

    async def _call(
        self, method: str, path: str, body: Row | None = None, params: Mapping[str, str] | None = None
    ) -> Row:
        return await self._transport.call(method, path, dict[str, Any], body=body, params=params)
