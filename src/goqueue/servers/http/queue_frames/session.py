"""One queue connection: reads frames, does what they ask for, and answers each when it is done.

Requests run side by side, up to a bound. When the client goes away, requests that wait are cancelled, and messages
that could no longer be handed over are released at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from aiohttp import WSMsgType, web

from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import GoQueueError, InvalidRequest, PartitionNotFound, ReceiptExpired, TooBusy, wire_of
from goqueue.records import TopicPartition
from goqueue.servers.http.adapter import detail_of
from goqueue.servers.http.bodies.large_answers import LARGE_BYTES, Sending
from goqueue.servers.http.queue_frames.frames import (
    CancelFrame,
    PollFrame,
    ReceiveFrame,
    Request,
    SettleFrame,
    decode_request,
    encode_error,
    encode_messages,
    encode_settled,
)
from goqueue.servers.http.queue_poll import QueuePoll, poll_queue
from goqueue.servers.services import Services

_log = logging.getLogger("goqueue.http")
# Requests of one connection that may be under way.
REQUESTS_MAX = 1_000
# The id of errors that belong to no request.
NO_REQUEST = -1


class QueueSession:
    """Serves one WebSocket until either side closes it."""

    def __init__(self, services: Services, request: web.Request, socket: web.WebSocketResponse) -> None:
        self._services = services
        self._request = request
        self._socket = socket
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Answer frames until the end."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    await self._take(message.data)
                elif message.type is WSMsgType.TEXT:
                    await self._refuse(
                        NO_REQUEST, InvalidRequest("a frame is text", field="frame", hint="send MessagePack")
                    )
        finally:
            left = list(self._tasks.values())
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _take(self, data: bytes) -> None:
        try:
            frame = decode_request(data)
        except InvalidRequest as error:
            await self._refuse(NO_REQUEST, error)
            return
        if isinstance(frame, CancelFrame):
            task = self._tasks.pop(frame.id, None)
            if task is not None:
                task.cancel()
            return
        if frame.id in self._tasks:
            await self._refuse(frame.id, InvalidRequest(f"request id {frame.id} is in use", field="id"))
            return
        if len(self._tasks) >= REQUESTS_MAX:
            await self._refuse(frame.id, TooBusy(f"{REQUESTS_MAX} requests of this connection are under way"))
            return
        task = asyncio.create_task(self._answer(frame))
        self._tasks[frame.id] = task
        task.add_done_callback(lambda done: self._ended(frame.id, done))

    def _ended(self, request_id: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(request_id) is task:
            del self._tasks[request_id]

    async def _answer(self, frame: Request) -> None:
        try:
            if isinstance(frame, SettleFrame):
                await self._send(await self._settle(frame))
            elif isinstance(frame, ReceiveFrame):
                await self._hand_over(frame.id, 0, await self._receive(frame))
            elif isinstance(frame, PollFrame):
                deliveries, generation = await self._poll(frame)
                await self._hand_over(frame.id, generation, deliveries)
        except GoQueueError as error:
            await self._refuse(frame.id, error)
        except ConnectionError:
            # The client is gone, and the loop of `serve` ends by itself.
            return
        except Exception:  # noqa: BLE001 - the last line of defence of a request
            _log.exception("request failed", extra={"path": self._request.path, "frame": type(frame).__name__})
            await self._refuse(frame.id, GoQueueError("an internal error occurred; the broker's log has the details"))

    # --- what frames ask for -------------------------------------------------------------

    async def _receive(self, frame: ReceiveFrame) -> list[Delivery]:
        services = self._services
        await services.answers.room()
        count = services.topics.get(frame.topic).partition_count
        if frame.partition is not None and frame.partition >= count:
            raise PartitionNotFound(frame.topic, frame.partition)
        numbers = range(count) if frame.partition is None else (frame.partition,)
        return await services.delivery.receive(
            Receive(
                group=frame.group,
                consumer=frame.client_id,
                places=[TopicPartition(frame.topic, number) for number in numbers],
                limit=frame.limit,
                max_bytes=frame.max_bytes,
                wait_ms=min(frame.wait_ms, services.config.http.wait_ms_max),
                visibility_ms=frame.visibility_ms,
            )
        )

    async def _poll(self, frame: PollFrame) -> tuple[list[Delivery], int]:
        await self._services.answers.room()
        poll = QueuePoll(
            group=frame.group,
            member_id=frame.member_id,
            generation=frame.generation,
            limit=frame.limit,
            max_bytes=frame.max_bytes,
            wait_ms=min(frame.wait_ms, self._services.config.http.wait_ms_max),
            visibility_ms=frame.visibility_ms,
        )
        return await poll_queue(self._services, poll)

    async def _settle(self, frame: SettleFrame) -> bytes:
        if frame.action is Action.REJECT and not frame.error:
            raise InvalidRequest("a reject has no error", field="error", hint="say what is wrong with the message")
        outcomes = await self._services.delivery.settle_leases(
            frame.leases,
            frame.action,
            delay_ms=frame.delay_ms,
            reason=frame.error,
            visibility_ms=frame.visibility_ms,
            durable=frame.durable,
        )
        rows = []
        for (place, count, nonce, _), one in zip(frame.leases, outcomes, strict=True):
            error = one.error
            if one.refused:
                error = ReceiptExpired(f"{place}:{one.refused[0]}:{count}:{nonce}")
            rows.append(
                (one, None, 200) if error is None else (one, detail_of(error, error.field), wire_of(error).http)
            )
        return encode_settled(frame.id, rows)

    # --- answers -------------------------------------------------------------------------

    async def _hand_over(self, request_id: int, generation: int, deliveries: Sequence[Delivery]) -> None:
        try:
            await self._send(encode_messages(request_id, generation, deliveries))
        except (ConnectionError, asyncio.CancelledError):
            # Gone, or no longer wanted while it was being sent: nobody will settle these.
            if deliveries:
                await self._services.delivery.settle([Settlement(one.receipt, Action.RELEASE) for one in deliveries])
            raise

    async def _refuse(self, request_id: int, error: GoQueueError) -> None:
        try:
            await self._send(encode_error(request_id, wire_of(error).http, detail_of(error, error.field)))
        except ConnectionError:
            return

    async def _send(self, data: bytes) -> None:
        if self._socket.closed:
            raise ConnectionResetError("the client closed the connection")
        if len(data) <= LARGE_BYTES:
            await self._socket.send_bytes(data)
            return
        with Sending(self._request, self._services.answers, len(data)):
            await self._socket.send_bytes(data)
