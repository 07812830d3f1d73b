"""The answering side of one connection: a task per request, ended when its caller goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from goqueue.cluster.call_messages import Abandon, Request, Response, decode, encode
from goqueue.cluster.error_codec import sent_error
from goqueue.errors import GoQueueError, PeerUnreachable, RequestTimedOut, TooBusy, UnknownPeerCall

if TYPE_CHECKING:
    from goqueue.cluster.network import PeerConnection

_log = logging.getLogger("goqueue.cluster")

# (body, peer): answers one call of a peer, whose node id the connection has proved.
CallHandler = Callable[[bytes, int], Awaitable[bytes]]


class IncomingCalls:
    """Answers what one peer asks over one connection."""

    def __init__(self, connection: PeerConnection, handlers: Mapping[str, CallHandler], *, running_max: int) -> None:
        self._connection = connection
        self._handlers = handlers
        self._running_max = running_max
        self._running: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the connection ends. What is under way then is cancelled: nobody would get its answer."""
        try:
            while (raw := await self._connection.receive()) is not None:
                message = decode(bytes(raw))
                if isinstance(message, Request):
                    await self._begin(message)
                elif isinstance(message, Abandon) and (task := self._running.get(message.number)) is not None:
                    task.cancel()
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.warning("node %d sent what is not a call; its connection is closed: %s", self._connection.peer, error)
        except PeerUnreachable:
            pass
        finally:
            self._connection.close()
            running = list(self._running.values())
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)

    async def _begin(self, request: Request) -> None:
        if len(self._running) >= self._running_max:
            refusal = TooBusy(f"{self._running_max} calls of node {self._connection.peer} are being answered already")
            await self._send(Response(request.number, b"", sent_error(refusal)))
            return
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._running[request.number] = task
        task.add_done_callback(lambda _: self._running.pop(request.number, None))

    async def _answer(self, request: Request) -> None:
        try:
            async with asyncio.timeout(request.timeout_ms / 1000):
                response = Response(request.number, await self._handle(request))
        except GoQueueError as error:
            response = Response(request.number, b"", sent_error(error))
        except TimeoutError:
            late = RequestTimedOut(f"{request.method!r} took longer than {request.timeout_ms} ms")
            response = Response(request.number, b"", sent_error(late))
        except Exception:  # noqa: BLE001 - the last line of defence of a call
            _log.exception("call %r of node %d failed", request.method, self._connection.peer)
            failure = GoQueueError(f"call {request.method!r} failed on the node that was asked; see its log")
            response = Response(request.number, b"", sent_error(failure))
        # What is done is told: a caller that has gone meanwhile may have to undo it.
        self._running.pop(request.number, None)
        await self._send(response)

    async def _handle(self, request: Request) -> bytes:
        handler = self._handlers.get(request.method)
        if handler is None:
            raise UnknownPeerCall(request.method)
        return await handler(request.body, self._connection.peer)

    async def _send(self, response: Response) -> None:
        with suppress(PeerUnreachable):
            await self._connection.send(encode(response))
