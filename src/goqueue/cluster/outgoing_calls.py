"""The calling side of one connection: requests go out, responses find whoever waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from goqueue.cluster.call_messages import Abandon, Request, Response, decode, encode
from goqueue.cluster.error_codec import received_error
from goqueue.errors import PeerLost, PeerUnreachable, RequestTimedOut, TooBusy

if TYPE_CHECKING:
    from goqueue.cluster.network import PeerConnection

# Told of a response that came after its caller had gone.
OnLate = Callable[[bytes], None]
# Responses of abandoned calls that somebody wants to hear of; the oldest is forgotten first.
_LATE_MAX = 1_000


class OutgoingCalls:
    """Calls under way to one peer, over one connection."""

    def __init__(self, connection: PeerConnection, *, waiting_max: int) -> None:
        self._connection = connection
        self._waiting_max = waiting_max
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._late: dict[int, OnLate] = {}
        self._number = 0
        self.is_closed = False
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def call(self, method: str, body: bytes, *, timeout_ms: int, on_late: OnLate | None) -> bytes:
        """Ask the peer and wait for its response."""
        if len(self._waiting) >= self._waiting_max:
            raise TooBusy(f"{self._waiting_max} calls to node {self._connection.peer} are under way already")
        self._number += 1
        number = self._number
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        is_taken = False
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._connection.send(encode(Request(number, method, timeout_ms, body)))
                taken = await answer
            is_taken = True
            return taken
        except TimeoutError:
            raise RequestTimedOut(
                f"node {self._connection.peer} did not answer {method!r} within {timeout_ms} ms"
            ) from None
        finally:
            del self._waiting[number]
            if not answer.done() or answer.cancelled():
                self._abandon(number, on_late)
            elif not is_taken and answer.exception() is None and on_late is not None:
                # It came in the turn of the loop in which its caller was cancelled, and nobody has seen it.
                on_late(answer.result())

    async def close(self) -> None:
        """Whoever waits is told that the peer is gone."""
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader
        self._end("this node closed the connection")

    def _abandon(self, number: int, on_late: OnLate | None) -> None:
        if self.is_closed:
            return
        if on_late is not None:
            self._late[number] = on_late
            if len(self._late) > _LATE_MAX:
                self._late.pop(next(iter(self._late)))
        # Not awaited: whoever called is gone, perhaps by a cancellation.
        task = asyncio.get_running_loop().create_task(self._send_abandon(number))
        _KEPT.add(task)
        task.add_done_callback(_KEPT.discard)

    async def _send_abandon(self, number: int) -> None:
        with suppress(PeerUnreachable):
            await self._connection.send(encode(Abandon(number)))

    async def _read(self) -> None:
        reason = "the connection ended"
        try:
            while (raw := await self._connection.receive()) is not None:
                message = decode(bytes(raw))
                if isinstance(message, Response):
                    self._take(message)
        except (PeerUnreachable, msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = str(error)
        finally:
            self._end(reason)

    def _take(self, response: Response) -> None:
        waiting = self._waiting.get(response.number)
        if waiting is None or waiting.done():
            on_late = self._late.pop(response.number, None)
            if on_late is not None and response.error is None:
                on_late(response.body)
            return
        if response.error is None:
            waiting.set_result(response.body)
        else:
            waiting.set_exception(received_error(response.error))

    def _end(self, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._connection.close()
        self._late.clear()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._lost(reason))

    def _lost(self, reason: str) -> PeerLost:
        return PeerLost(self._connection.peer, reason)


# Tasks that nobody awaits are kept here until they are done, or they could be collected.
_KEPT: set[asyncio.Task[None]] = set()
