"""One client's connection: requests in, answers out in the order of the requests.

A request that its handler answers at once costs no task and no future; its answer is
written with those of the requests that came in the same read. One that must wait gets a
task and a place in line, and the requests behind it are worked on meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, cast

from goqueue.errors import MalformedRequest
from goqueue.ports import Buffer
from goqueue.servers.kafka.dispatch import Frame, Later
from goqueue.servers.kafka.framing import Framing

if TYPE_CHECKING:
    from goqueue.servers.kafka.server import KafkaServer

# Requests worked on before other connections get their turn.
REQUESTS_PER_TURN = 32

# Above this many unsent bytes the transport tells us, and again when all are gone.
UNSENT_NOTICE_BYTES = 64 * 1024


class _Place:
    """A place in the line of answers."""

    __slots__ = ("frame", "request_bytes", "task")

    def __init__(self, frame: Frame | None = None, request_bytes: int = 0) -> None:
        self.frame = frame
        self.request_bytes = request_bytes
        # There while it is worth waiting for.
        self.task: asyncio.Task[Frame | None] | None = None


class Connection(asyncio.BufferedProtocol):
    """Between the transport and the dispatcher. All limits of a single client are kept here."""

    __slots__ = (
        "_budget",
        "_framing",
        "_held_bytes",
        "_is_closing",
        "_is_reading",
        "_is_stopping",
        "_is_unsent",
        "_line",
        "_outgoing",
        "_requests",
        "_server",
        "_transport",
        "_waits",
        "active_at",
        "peer",
    )

    def __init__(self, server: KafkaServer) -> None:
        self._server = server
        self._budget = server.budget
        self._framing = Framing(server.arena, request_bytes_max=server.limits.request_bytes_max)
        self._held_bytes = 0
        self._requests: deque[Buffer] = deque()
        self._line: deque[_Place] = deque()
        self._waits: set[asyncio.Task[Frame | None]] = set()
        self._outgoing: list[Buffer] = []
        self._is_reading = True
        self._is_unsent = False
        self._is_closing = False
        self._is_stopping = False
        self.active_at = server.loop.time()
        self.peer = "?"

    # --- the transport calls ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here."""
        self._transport = cast("asyncio.Transport", transport)
        _send_small_answers_at_once(transport)
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if address else "?"
        self._transport.set_write_buffer_limits(high=UNSENT_NOTICE_BYTES, low=0)
        self._server.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - we know better what fits
        """Where to put the next bytes."""
        return self._framing.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came in."""
        self.active_at = self._server.loop.time()
        framing = self._framing
        try:
            self._requests.extend(framing.received(nbytes))
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        held = framing.held_bytes
        if held != self._held_bytes:
            self._count_held(held)
        self._work()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._is_unsent = True

    def resume_writing(self) -> None:
        """All answers are sent."""
        self._is_unsent = False
        self._budget.set_unread(self, 0)
        self._work()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - clients may leave as they like
        """The client is gone. What it asked for is finished, but nobody is told."""
        self._is_closing = True
        self._cancel_waits()
        self._line.clear()
        self._requests.clear()
        self._budget.give_back(self._held_bytes)
        self._held_bytes = 0
        self._budget.forget(self)
        self._server.closed(self)

    # --- the server and the budget call -----------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still being worked on."""
        return bool(self._line)

    def refuse(self, reason: str) -> None:
        """Close, because of something the client did, and say why in the log."""
        if not self._is_closing:
            self._is_closing = True
            self._server.log_refusal(self.peer, reason)
            self._transport.abort()

    def close(self) -> None:
        """Close once everything written is sent."""
        self._is_closing = True
        self._transport.close()

    def abort(self) -> None:
        """Close now."""
        self._is_closing = True
        self._transport.abort()

    def stop_reading(self) -> None:
        """Take no more requests and wait for nothing: the server stops."""
        self._is_stopping = True
        self._requests.clear()
        self._set_reading(wanted=False)
        self._cancel_waits()

    def go_on(self) -> None:
        """There is memory for requests again."""
        self._work()

    def evict(self) -> None:
        """Free what this client leaves unread."""
        self.refuse("it leaves too many answers unread while memory is short")

    # --- requests ---------------------------------------------------------------------

    def _work(self) -> None:
        """Answer what has come in, as far as the limits allow, then decide whether to read on."""
        requests = self._requests
        turns = REQUESTS_PER_TURN
        while requests and turns and not self._is_closing and not self._must_wait():
            turns -= 1
            self._answer(requests.popleft())
        if self._is_closing:
            return
        if self._outgoing or self._is_unsent:
            self._flush()
        must_wait = self._must_wait()
        if requests and not must_wait:
            self._server.loop.call_soon(self._work)
        may_read = not requests and not self._is_stopping and not must_wait and self._budget.may_read(self)
        if may_read != self._is_reading:
            self._set_reading(wanted=may_read)

    def _must_wait(self) -> bool:
        limits = self._server.limits
        if len(self._line) >= limits.inflight_requests_per_connection_max or not self._budget.may_answer(self):
            return True
        return self._is_unsent and self._transport.get_write_buffer_size() > limits.unsent_bytes_max

    def _answer(self, request: Buffer) -> None:
        try:
            answered = self._server.dispatcher.take(request, self.peer, self)
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        if isinstance(answered, Later):
            self._wait_for(answered, len(request))
        elif answered is not None:
            self._send_in_turn(answered)

    def _wait_for(self, answer: Later, request_bytes: int) -> None:
        place = _Place(request_bytes=request_bytes)
        place.task = task = self._server.spawn(answer.frame)
        self._budget.take(request_bytes)
        self._line.append(place)
        if answer.ends_with_client:
            self._waits.add(task)
        task.add_done_callback(lambda done: self._done(place, done))

    def _done(self, place: _Place, task: asyncio.Task[Frame | None]) -> None:
        self._waits.discard(task)
        self._budget.give_back(place.request_bytes)
        place.task = None
        if task.cancelled():
            self.abort()
            return
        error = task.exception()
        if error is not None:
            self.refuse(str(error))
        if self._is_closing:
            return
        place.frame = task.result()
        self._work_off_line()
        self._work()

    def _cancel_waits(self) -> None:
        for task in list(self._waits):
            task.cancel()

    # --- answers ----------------------------------------------------------------------

    def _send_in_turn(self, frame: Frame) -> None:
        if self._line:
            self._line.append(_Place(frame))
        else:
            self._outgoing.extend(frame)
            # Small answers go out together; large ones must be seen by the limits at once.
            if len(frame) > 1 or len(frame[0]) > UNSENT_NOTICE_BYTES:
                self._flush()

    def _work_off_line(self) -> None:
        line = self._line
        while line and line[0].task is None:
            frame = line.popleft().frame
            if frame is not None:
                self._outgoing.extend(frame)

    def _flush(self) -> None:
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            self._transport.writelines(outgoing)
        if self._is_unsent:
            self._budget.set_unread(self, self._transport.get_write_buffer_size())

    # --- reading ----------------------------------------------------------------------

    def _count_held(self, held: int) -> None:
        before, self._held_bytes = self._held_bytes, held
        if held > before:
            self._budget.take(held - before)
        else:
            self._budget.give_back(before - held)
            self._budget.leave_line(self)

    def _set_reading(self, *, wanted: bool) -> None:
        if wanted != self._is_reading and not self._is_closing:
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


def _send_small_answers_at_once(transport: asyncio.BaseTransport) -> None:
    # Without this, an answer waits for the client to acknowledge the one before it.
    handle = transport.get_extra_info("socket")
    if handle is not None:
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
