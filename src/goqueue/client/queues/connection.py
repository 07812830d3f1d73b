"""One WebSocket to a broker, on which many requests are under way at a time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import aiohttp
import msgspec

from goqueue.client.background import end_task
from goqueue.client.errors import ClientError, refused
from goqueue.client.queues.frames import ErrorReply, MessagesReply, Reply, decode_reply, encode

_log = logging.getLogger("goqueue.client")


class ConnectionLost(ClientError):
    """The connection ended, or a reply did not come in time; `sent` says whether the broker may have the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class QueueConnection:
    """Sends frames and gives each reply to whoever waits for it. Belongs to one event loop."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Reply]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._reader = asyncio.create_task(self._read())

    @property
    def closed(self) -> bool:
        """Whether it is of no more use."""
        return self._socket.closed or self._reader.done()

    async def request(self, kind: str, *fields: Any, timeout_s: float) -> Reply:
        """Send a frame and wait for its reply. A reply that is no longer awaited is given back to the broker."""
        if self.closed:
            raise ConnectionLost("the connection is closed", sent=False)
        number = next(self._ids)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            try:
                await self._socket.send_bytes(encode((kind, number, *fields)))
            except ConnectionError as problem:
                raise ConnectionLost(str(problem) or type(problem).__name__, sent=True) from problem
            async with asyncio.timeout(timeout_s):
                reply = await future
        except TimeoutError:
            self._cancel(number)
            raise ConnectionLost(f"no reply within {timeout_s:g} s", sent=True) from None
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._give_back(future.result())
            self._cancel(number)
            raise
        finally:
            self._pending.pop(number, None)
        if isinstance(reply, ErrorReply):
            raise refused(reply.status, reply.detail)
        return reply

    async def unused(self) -> None:
        """Wait until no request is under way."""
        while self._pending:
            await asyncio.wait([*self._pending.values()])
            # Whoever waited for it takes it out.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close the socket. A second close does no harm."""
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)
        await self._socket.close()
        await end_task(self._reader)

    async def _read(self) -> None:
        reason = "the broker closed the connection"
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    continue
                reply = decode_reply(message.data)
                future = self._pending.pop(reply.id, None)
                if future is not None and not future.done():
                    future.set_result(reply)
                else:
                    self._give_back(reply)
        except msgspec.MsgspecError as problem:
            reason = f"the broker sent a frame that this client cannot read: {problem}"
            _log.error("%s", reason)
            await self._socket.close()
        finally:
            pending, self._pending = self._pending, {}
            for future in pending.values():
                if not future.done():
                    future.set_exception(ConnectionLost(reason, sent=True))

    def _cancel(self, number: int) -> None:
        self._later("cancel", number)

    def _give_back(self, reply: Reply) -> None:
        """Release messages that nobody waits for any more, so that they are redelivered at once."""
        if isinstance(reply, MessagesReply) and reply.groups:
            leases = [
                (f"{one.topic}:{one.partition}", one.delivery_count, one.nonce, [row[0] for row in one.rows])
                for one in reply.groups
            ]
            self._later("settle", next(self._ids), "release", leases)

    def _later(self, *frame: Any) -> None:
        if not self._socket.closed:
            task = asyncio.create_task(self._send_quietly(encode(frame)))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _send_quietly(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except ConnectionError:
            # The broker releases what it cannot hand over.
            return
