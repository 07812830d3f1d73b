"""How queues talk to a broker: frames over one WebSocket, or JSON where the broker or a proxy has none.

Everything that a client's queues receive and settle goes through here. Requests of several consumers that meet travel
together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from goqueue.client.durations import ms_of
from goqueue.client.errors import BrokerUnreachable, ClientClosed, RequestRefused
from goqueue.client.queues.connection import ConnectionLost, QueueConnection
from goqueue.client.queues.frames import PATH, PROTOCOL, Leases, MessagesReply, SettledReply, messages_of
from goqueue.client.queues.gathering import Lost, ReceiveGatherer, SettleGatherer
from goqueue.client.retry import MAY_PASS
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import QueueMessage, ReceiveReply, Settled, SettleReply, decode_queue_message

T = TypeVar("T")
# Gatherers of queues that nobody reads any more are dropped beyond so many.
_GATHERERS_MAX = 64
_ACTIONS = {"ack": "ack", "nack": "nack", "reject": "reject", "visibility": "extend"}


class QueueWire:
    """Receives and settles for all queues of one client."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._connection: QueueConnection | None = None
        # Those to other addresses on which requests are still under way.
        self._left: set[QueueConnection] = set()
        self._opening = asyncio.Lock()
        # Whether the broker, or what stands before it, has no queue connections.
        self._has_frames = True
        self._gatherers: dict[tuple[Any, ...], ReceiveGatherer] = {}
        self._settlers: dict[tuple[Any, ...], SettleGatherer] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def receive(
        self, topic: str, group: str, client_id: str, limit: int, wait_ms: int, visibility_ms: int | None
    ) -> list[QueueMessage]:
        """Messages of a topic that no other consumer of the group holds."""
        key = (topic, group, client_id, visibility_ms)
        gatherer = self._gatherers.get(key)
        if gatherer is None:
            self._drop_idle()

            async def take(limit: int, wait_ms: int) -> list[QueueMessage]:
                fields = (topic, group, client_id, limit, wait_ms, visibility_ms)
                reply = await self._request("receive", fields, MessagesReply, wait_ms)
                if reply is None:
                    return await self._receive_json(topic, group, client_id, limit, wait_ms, visibility_ms)
                return messages_of(reply, group)

            gatherer = self._gatherers[key] = ReceiveGatherer(take, self._give_back)
        return await gatherer.receive(limit, wait_ms)

    async def poll(
        self, group: str, member_id: str, generation: int, limit: int, wait_ms: int, visibility_ms: int | None
    ) -> list[QueueMessage]:
        """Messages for a member of a queue group."""
        fields = (group, member_id, generation, limit, wait_ms, visibility_ms)
        reply = await self._request("poll", fields, MessagesReply, wait_ms)
        if reply is not None:
            return messages_of(reply, group)
        body: dict[str, Any] = {
            "member_id": member_id,
            "generation": generation,
            "limit": limit,
            "timeout_ms": wait_ms,
        }
        path = f"/groups/{quoted(group)}/poll"
        return await self._messages_json(path, body, group, wait_ms, visibility_ms)

    async def settle(
        self, path: str, receipts: Sequence[str], fields: Mapping[str, Any], *, durable: bool, on_lost: Lost
    ) -> list[Settled]:
        """What became of each receipt; `path` is the route of the action, `fields` are those of its body.

        `on_lost` is called when an attempt may have reached the broker and its answer was lost.
        """
        kind = (path, durable, *sorted(fields.items()))
        settler = self._settlers.get(kind)
        if settler is None:

            async def send(together: Sequence[str], lost: Lost) -> list[Settled]:
                return await self._settle_together(path, together, fields, durable=durable, on_lost=lost)

            # Reasons and delays make kinds of their own: those that are done are not kept.
            settler = self._settlers[kind] = SettleGatherer(send, lambda: self._settlers.pop(kind, None))
        return await settler.settle(receipts, on_lost)

    async def close(self) -> None:
        """Close the connection; receives that are under way fail."""
        self._closed = True
        for gatherer in self._gatherers.values():
            gatherer.close()
        for task in [*self._background]:
            task.cancel()
        connection, self._connection = self._connection, None
        for one in [*self._left, *([connection] if connection is not None else [])]:
            await one.close()

    # --- frames --------------------------------------------------------------------------

    async def _settle_together(
        self, path: str, receipts: Sequence[str], fields: Mapping[str, Any], *, durable: bool, on_lost: Lost
    ) -> list[Settled]:
        leases: Leases | None = None
        if self._has_frames:
            # Of what is no receipt the broker says what is wrong with it.
            with suppress(ValueError):
                leases = Leases(receipts)
        if leases is None:
            return await self._settle_json(path, receipts, fields, durable=durable, on_lost=on_lost)
        action = _ACTIONS[path.rpartition("/")[2]]
        visibility = fields.get("visibility")
        visibility_ms = None if visibility is None else ms_of(visibility, "visibility")
        if action == "extend" and (fields.get("extension_seconds") == 0 or visibility_ms == 0):
            action, visibility_ms = "release", None
        delay = fields.get("delay")
        delay_ms = None if delay is None else ms_of(delay, "delay")
        row = (action, leases.rows(), durable, delay_ms, fields.get("error") or "", visibility_ms)
        reply = await self._request("settle", row, SettledReply, 0, on_lost)
        if reply is None:
            return await self._settle_json(path, receipts, fields, durable=durable, on_lost=on_lost)
        return leases.results(reply.outcomes, is_extension=action == "extend")

    async def _request(
        self, kind: str, fields: tuple[Any, ...], expected: type[T], wait_ms: int, on_lost: Lost | None = None
    ) -> T | None:
        """The reply to a frame, sent again where that is safe; None where there are no frames."""
        retry, attempt = self._transport.retry, 0
        while True:
            attempt += 1
            tried, connection = self._transport.server, None
            try:
                connection = await self._open()
                if connection is None:
                    return None
                timeout_s = self._transport.timeout_s + wait_ms / 1000
                reply = await connection.request(kind, *fields, timeout_s=timeout_s)
                if not isinstance(reply, expected):
                    raise ConnectionLost(f"the broker sent a reply of another kind to {kind}", sent=True)
                return reply
            except ConnectionLost as problem:
                await self._drop(connection, tried)
                if problem.sent and on_lost is not None:
                    on_lost()
                if self._closed:
                    raise ClientClosed("the client was closed while a request was under way") from None
                # Sent twice it does no harm: messages of a lost reply are redelivered, and a receipt settles once.
                if not retry.may_retry(attempt, repeatable=True, status=None):
                    raise BrokerUnreachable(tried, str(problem)) from problem
            except RequestRefused as refused:
                if not retry.may_retry(attempt, repeatable=True, status=refused.status):
                    raise
                if refused.status in MAY_PASS:
                    self._move_on(connection, tried)
            # Jitter needs no secrecy: it only keeps many clients from knocking at once.
            await asyncio.sleep(retry.delay_ms(attempt, random.random()) / 1000)  # noqa: S311

    async def _open(self) -> QueueConnection | None:
        connection = self._connection
        if connection is not None and not connection.closed:
            return connection
        if not self._has_frames:
            return None
        async with self._opening:
            if self._connection is None or self._connection.closed:
                try:
                    opened = await self._transport.open_socket(PATH, PROTOCOL)
                except ConnectionError as problem:
                    raise ConnectionLost(str(problem), sent=False) from problem
                if opened.socket is None:
                    self._has_frames = not opened.is_unknown
                    return None
                self._connection = QueueConnection(opened.socket)
            return self._connection

    async def _drop(self, connection: QueueConnection | None, tried: str) -> None:
        """This broker did not answer: the next attempt goes to the next address."""
        self._transport.next_server(tried)
        if connection is not None:
            # Another request may have opened the next one meanwhile.
            if connection is self._connection:
                self._connection = None
            await connection.close()

    def _move_on(self, connection: QueueConnection | None, tried: str) -> None:
        """This broker refuses: the next attempt goes to the next address. Requests of others may have their answers."""
        self._transport.next_server(tried)
        if connection is not None and connection is self._connection and self._transport.server != tried:
            self._connection = None
            self._left.add(connection)
            task = asyncio.create_task(self._close_unused(connection))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _close_unused(self, connection: QueueConnection) -> None:
        await connection.unused()
        self._left.discard(connection)
        await connection.close()

    def _give_back(self, messages: Sequence[QueueMessage]) -> None:
        """Nobody waits for these any more: let them be redelivered at once."""
        if not messages or self._closed:
            return
        receipts = [one.receipt for one in messages]
        work = self.settle("/messages/visibility", receipts, {"extension_seconds": 0}, durable=False, on_lost=_nothing)
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _drop_idle(self) -> None:
        if len(self._gatherers) >= _GATHERERS_MAX:
            self._gatherers = {key: one for key, one in self._gatherers.items() if not one.is_idle}

    # --- JSON ----------------------------------------------------------------------------

    async def _receive_json(
        self, topic: str, group: str, client_id: str, limit: int, wait_ms: int, visibility_ms: int | None
    ) -> list[QueueMessage]:
        body: dict[str, Any] = {"group": group, "client_id": client_id, "limit": limit, "wait": f"{wait_ms}ms"}
        return await self._messages_json(f"/topics/{quoted(topic)}/receive", body, group, wait_ms, visibility_ms)

    async def _messages_json(
        self, path: str, body: dict[str, Any], group: str, wait_ms: int, visibility_ms: int | None
    ) -> list[QueueMessage]:
        if visibility_ms is not None:
            body["visibility"] = f"{visibility_ms}ms"
        # Sent twice it does no harm: the messages of a lost reply are redelivered when their visibility ends.
        reply = await self._transport.call("POST", path, ReceiveReply, body=body, repeatable=True, wait_ms=wait_ms)
        return [decode_queue_message(wire, group) for wire in reply.messages]

    async def _settle_json(
        self, path: str, receipts: Sequence[str], fields: Mapping[str, Any], *, durable: bool, on_lost: Lost
    ) -> list[Settled]:
        body = {"receipts": list(receipts), "durable": durable, **fields}
        # Sent twice it does no harm: a receipt that was settled the first time is refused the second.
        reply = await self._transport.call("POST", path, SettleReply, body=body, repeatable=True, on_lost=on_lost)
        return reply.results


def _nothing() -> None:
    """Messages that are given back need no account of what became of them."""


async def _quietly(work: Any) -> None:
    try:
        await work
    except (RequestRefused, BrokerUnreachable, ClientClosed):
        # They are redelivered when their visibility ends.
        return
