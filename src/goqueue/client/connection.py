"""The front door: one client for one broker, from which everything else is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from goqueue.client.consumer import Consumer, ConsumerOptions
from goqueue.client.delayed import DelayedMessages, Schedules
from goqueue.client.producer import Producer, ProducerOptions
from goqueue.client.queue_consumer import QueueConsumer, QueueOptions
from goqueue.client.queue_source import GroupSource, TopicSource
from goqueue.client.retry import RetryPolicy
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import Message, ReadReply, Settled, SettleReply, WireMessage, decode_message

Row = dict[str, Any]


def connect(server: str = "http://127.0.0.1:8080", **options: Any) -> Client:
    """A client for the broker at `server`. Nothing is sent before the first call."""
    return Client(Transport(server, **options))


class Client:
    """Topics, groups, reads, producers and consumers of one broker."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.delayed = DelayedMessages(transport)
        self.schedules = Schedules(transport)

    # --- producing and consuming -------------------------------------------------------

    def producer(self, **options: Any) -> Producer:
        """A producer; options are those of `ProducerOptions`."""
        return Producer(self._transport, ProducerOptions(**options))

    def consumer(self, group: str, topics: Iterable[str], **options: Any) -> Consumer:
        """A member of `group`; options are those of `ConsumerOptions`."""
        return Consumer(self._transport, group, topics, ConsumerOptions(**options))

    def queue(self, topic: str, *, group: str = "default", **options: Any) -> QueueConsumer:
        """A queue over one topic, without joining anything; options are those of `QueueOptions`."""
        chosen = QueueOptions(**options)
        source = TopicSource(self._transport, topic, group, chosen.client_id)
        return QueueConsumer(self._transport, source, chosen)

    def queue_consumer(self, group: str, topics: Iterable[str], **options: Any) -> QueueConsumer:
        """A member of the queue group `group`; options are those of `QueueOptions`."""
        if isinstance(topics, str):
            raise TypeError(f"topics is the string {topics!r}: give a list of names, such as [{topics!r}]")
        chosen = QueueOptions(**options)
        given = {"sharing": chosen.sharing, "key_ordered": chosen.key_ordered}
        kind = {name: one for name, one in given.items() if one is not None}
        source = GroupSource(self._transport, group, list(topics), chosen.client_id, kind)
        return QueueConsumer(self._transport, source, chosen)

    async def read(
        self, topic: str, partition: int, *, offset: int | str = "earliest", limit: int = 100, wait_ms: int = 0
    ) -> tuple[list[Message], int]:
        """Read without a group or state: messages, and the offset to read on from."""
        start = {"offset": str(offset)} if isinstance(offset, int) else {"from": offset}
        reply = await self._transport.call(
            "GET",
            f"/topics/{quoted(topic)}/partitions/{partition}/messages",
            ReadReply,
            params={**start, "limit": str(limit), "wait": f"{wait_ms}ms"},
            wait_ms=wait_ms,
        )
        return [decode_message(wire) for wire in reply.messages], reply.next_offset

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first message at or after a time; the end when there is none."""
        reply = await self._transport.call(
            "GET",
            f"/topics/{quoted(topic)}/partitions/{partition}/offset",
            dict[str, Any],
            params={"timestamp": str(timestamp_ms)},
        )
        return int(reply["offset"])

    async def tail(self, topic: str, **params: str) -> AsyncIterator[Message]:
        """Follow a topic as it grows; `params` are the streaming route's."""
        async for line in self._transport.lines(
            f"/topics/{quoted(topic)}/messages/stream", {"format": "ndjson", **params}
        ):
            yield decode_message(msgspec.json.decode(line, type=WireMessage))

    # --- topics ------------------------------------------------------------------------

    async def create_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> Row:
        """Create a topic."""
        body: Row = {"name": name, "config": dict(config or {})}
        if partitions is not None:
            body["num_partitions"] = partitions
        return await self._call("POST", "/topics", body)

    async def topics(self, *, internal: bool = False) -> list[Row]:
        """Name, partitions and kind of every topic."""
        reply = await self._call("GET", "/topics", params={"internal": str(internal).lower()})
        return list(reply["details"])

    async def topic(self, name: str) -> Row:
        """One topic: its settings, sizes and offsets."""
        return await self._call("GET", f"/topics/{quoted(name)}")

    async def alter_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str | None] | None = None
    ) -> Row:
        """Change settings (None takes an override away) or add partitions."""
        body: Row = {"config": dict(config or {})}
        if partitions is not None:
            body["num_partitions"] = partitions
        return await self._call("PATCH", f"/topics/{quoted(name)}", body)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all in it."""
        await self._call("DELETE", f"/topics/{quoted(name)}")

    # --- groups ------------------------------------------------------------------------

    async def groups(self) -> list[Row]:
        """Every group with its state."""
        return list((await self._call("GET", "/groups"))["groups"])

    async def group(self, group: str) -> Row:
        """One group: members, assignments, offsets, lag."""
        return await self._call("GET", f"/groups/{quoted(group)}")

    async def group_offsets(self, group: str) -> Row:
        """Committed offsets and lag by topic and partition."""
        return await self._call("GET", f"/groups/{quoted(group)}/offsets")

    async def reset_offsets(self, group: str, **request: Any) -> Row:
        """Move an inactive group's offsets; fields are the reset route's (`topic`, `to`, `dry_run`, ...)."""
        return await self._call("POST", f"/groups/{quoted(group)}/offsets/reset", request)

    async def delete_group(self, group: str) -> None:
        """Forget a group that has no members."""
        await self._call("DELETE", f"/groups/{quoted(group)}")

    # --- queues ------------------------------------------------------------------------

    async def settle(self, action: str, receipts: Sequence[str], **fields: Any) -> list[Settled]:
        """Settle receipts by their text: `action` is ack, nack, reject or visibility, `fields` are the route's."""
        body = {"receipts": list(receipts), **fields}
        reply = await self._transport.call("POST", f"/messages/{action}", SettleReply, body=body, repeatable=True)
        return reply.results

    async def policy(self, group: str, *, topic: str | None = None) -> Row:
        """How a queue group's messages are delivered, of one topic or of any."""
        return await self._call("GET", f"/groups/{quoted(group)}/policy", params={"topic": topic} if topic else None)

    async def alter_policy(self, group: str, **changes: Any) -> Row:
        """Change a queue group's policy; None takes an override away."""
        return await self._call("PATCH", f"/groups/{quoted(group)}/policy", changes)

    async def reliability_stats(self, topic: str | None = None) -> Row:
        """Leases, settlements, retries and dead letters since the broker was started, of one topic or of all."""
        return await self._call("GET", "/reliability/stats", params=_text_params({"topic": topic}))

    async def priority_stats(self, topic: str | None = None) -> Row:
        """What waits in the lanes, of one topic or of all, and how they are served."""
        return await self._call("GET", "/priority/stats", params=_text_params({"topic": topic}))

    async def dead_letters(self, topic: str, **params: Any) -> Row:
        """Dead letters of a topic; `params` are the route's filters, `limit` and `cursor`."""
        return await self._call("GET", f"/topics/{quoted(topic)}/dlq", params=_text_params(params))

    async def redrive(self, topic: str, **request: Any) -> Row:
        """Send dead letters back to their topic; fields are the redrive route's (`reason`, `limit`, `dry_run`, ...)."""
        return await self._call("POST", f"/topics/{quoted(topic)}/dlq/redrive", request)

    async def cancel_redrive(self, topic: str) -> Row:
        """Stop a redrive; what it has sent stays sent."""
        return await self._call("DELETE", f"/topics/{quoted(topic)}/dlq/redrive")

    async def purge_dead_letters(self, topic: str) -> Row:
        """Delete all dead letters of a topic."""
        return await self._call("DELETE", f"/topics/{quoted(topic)}/dlq")

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

    async def close(self) -> None:
        """Close the pooled connections. A second close does no harm."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(
        self, method: str, path: str, body: Row | None = None, params: Mapping[str, str] | None = None
    ) -> Row:
        return await self._transport.call(method, path, dict[str, Any], body=body, params=params)


def _text_params(params: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in params.items() if one is not None
    }


__all__ = ["Client", "Message", "RetryPolicy", "connect"]
