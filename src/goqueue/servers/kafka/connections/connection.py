"""One client's connection: requests in, answers out in the order of the requests.

A request that its handler answers at once costs no task and no future; its answer is
written with those of the requests that came in the same read. One that must wait gets a
task and a place in line, and the requests behind it are worked on meanwhile, unless they
would miss what it is about to change (`api.Order`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, cast

from goqueue.caller import plain_address
from goqueue.errors import MalformedRequest
from goqueue.ports import Buffer
from goqueue.servers.kafka.api import Order
from goqueue.servers.kafka.connections.framing import Framing
from goqueue.servers.kafka.connections.gate import UNAUTHENTICATED_BYTES_MAX, Gate
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.connections.request_order import UnansweredRequests
from goqueue.servers.kafka.dispatch import Dispatcher, Frame, Later

if TYPE_CHECKING:
    from goqueue.security.service import Security
    from goqueue.servers.kafka.server import KafkaServer

# Requests worked on before other connections get their turn.
REQUESTS_PER_TURN = 32

# Above this many unsent bytes the transport tells us, and again when all are gone.
UNSENT_NOTICE_BYTES = 64 * 1024


class _PendingAnswer:
    """An answer that is sent when those of earlier requests have been."""

    __slots__ = ("frame", "is_counted", "order", "request_bytes", "task")

    def __init__(self, frame: Frame | None = None, request_bytes: int = 0, order: Order = Order.READ) -> None:
        self.frame = frame
        self.request_bytes = request_bytes
        self.order = order
        # Among the large answers that wait in line.
        self.is_counted = False
        # There while it is worth waiting for.
        self.task: asyncio.Task[Frame | None] | None = None


class Connection(asyncio.BufferedProtocol):
    """Between the transport and the dispatcher. All limits of a single client are kept here."""

    __slots__ = (
        "_answers",
        "_budget",
        "_framing",
        "_held_bytes",
        "_is_closing",
        "_is_reading",
        "_is_stopping",
        "_is_unsent",
        "_line",
        "_line_bytes",
        "_outgoing",
        "_requests",
        "_server",
        "_transport",
        "_unanswered",
        "_waits",
        "active_at",
        "descriptor",
        "dispatcher",
        "gate",
        "peer",
        "principal",
    )

    def __init__(self, server: KafkaServer, dispatcher: Dispatcher) -> None:
        self._server = server
        self.dispatcher = dispatcher
        self._budget = server.budget
        self._answers = server.answers
        self._framing = Framing(server.arena, request_bytes_max=server.limits.request_bytes_max)
        self._held_bytes = 0
        self._requests: deque[Buffer] = deque()
        self._line: deque[_PendingAnswer] = deque()
        # Of the large answers that wait in line for one before them.
        self._line_bytes = 0
        self._unanswered = UnansweredRequests()
        self._waits: set[asyncio.Task[Frame | None]] = set()
        self._outgoing: list[Buffer] = []
        self._is_reading = True
        self._is_unsent = False
        self._is_closing = False
        self._is_stopping = False
        # There with security: what this client may ask before it has shown who it is.
        self.gate: Gate | None = None
        self.principal = ""
        self.active_at = server.loop.time()
        self.descriptor = -1
        self.peer = Peer("?")

    # --- the transport calls ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here."""
        self._transport = cast("asyncio.Transport", transport)
        handle = transport.get_extra_info("socket")
        if handle is not None:
            self.descriptor = handle.fileno()
            # Without this, an answer waits for the client to acknowledge the one before it.
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername")
        self.peer = Peer(plain_address(str(address[0])) if address else "?")
        self._transport.set_write_buffer_limits(high=UNSENT_NOTICE_BYTES, low=0)
        if self._server.security is not None:
            self._begin_gate(self._server.security)
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
        self._answers.set_unread(self, self._line_bytes)
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
        self._answers.forget(self)
        self._server.closed(self)
        self.peer.forget()

    # --- the server and the budget call -----------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether an answer is still being worked on."""
        return bool(self._line)

    def refuse(self, reason: str) -> None:
        """Close, because of something the client did, and say why in the log."""
        if not self._is_closing:
            self._is_closing = True
            self._server.log_refusal(self.peer.address, reason)
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
        """There is memory for requests or for answers again."""
        self._work()

    def unread_bytes(self) -> int:
        """What the client has not taken of its answers."""
        return self._line_bytes + self._transport.get_write_buffer_size()

    def evict(self, reason: str) -> None:
        """Free what this client leaves unread."""
        self.refuse(reason)

    # --- security ---------------------------------------------------------------------

    def _begin_gate(self, security: Security) -> None:
        certificate = self._transport.get_extra_info("peercert")
        self.gate = self.peer.gate = Gate(security, self.peer.address, self._authenticated)
        self._framing.limit(UNAUTHENTICATED_BYTES_MAX)
        self.gate.take_certificate(certificate)
        if not self.principal:
            self._server.loop.call_later(security.config.authentication_ms / 1000, self._check_in_time)

    def _authenticated(self, principal: str) -> None:
        """The client has shown who it is, for the first time or again."""
        self._framing.limit(self._server.limits.request_bytes_max)
        if principal != self.principal:
            self.peer.become(principal)
            before, self.principal = self.principal, principal
            self._server.authenticated(self, before)

    def _check_in_time(self) -> None:
        if not self.principal:
            self.refuse("it did not authenticate in time")

    # --- requests ---------------------------------------------------------------------

    def _work(self) -> None:
        """Answer what has come in, as far as the limits allow, then decide whether to read on."""
        requests = self._requests
        turns = REQUESTS_PER_TURN
        while requests and turns and not self._is_closing and not self._must_wait() and self._is_next_in_order():
            turns -= 1
            self._answer(requests.popleft())
        if self._is_closing:
            return
        if self._outgoing or self._is_unsent:
            self._flush()
        must_wait = self._must_wait()
        if requests and not must_wait and self._is_next_in_order():
            self._server.loop.call_soon(self._work)
        may_read = not requests and not self._is_stopping and not must_wait and self._budget.may_read(self)
        if may_read != self._is_reading:
            self._set_reading(wanted=may_read)

    def _must_wait(self) -> bool:
        limits = self._server.limits
        if len(self._line) >= limits.inflight_requests_per_connection_max or not self._answers.may_answer(self):
            return True
        return (self._is_unsent or self._line_bytes > 0) and self.unread_bytes() > limits.unsent_bytes_max

    def _is_next_in_order(self) -> bool:
        """Whether the first request that waits may start beside those that are unanswered."""
        unanswered = self._unanswered
        return unanswered.is_empty or unanswered.may_start(self.dispatcher.order(self._requests[0]))

    def _answer(self, request: Buffer) -> None:
        if self.gate is not None and not self.gate.is_open:
            reason = self.gate.refusal(request)
            if reason is not None:
                self.refuse(reason)
                return
        try:
            answered = self.dispatcher.take(request, self.peer)
        except MalformedRequest as error:
            self.refuse(str(error))
            return
        if isinstance(answered, Later):
            self._wait_for(answered, len(request))
        elif answered is not None:
            self._send_in_turn(answered)

    def _wait_for(self, answer: Later, request_bytes: int) -> None:
        pending = _PendingAnswer(request_bytes=request_bytes, order=answer.order)
        self._unanswered.add(answer.order)
        pending.task = task = self._server.spawn(answer.frame)
        self._budget.take(request_bytes)
        self._line.append(pending)
        if answer.ends_with_client:
            self._waits.add(task)
        task.add_done_callback(lambda done: self._done(pending, done))

    def _done(self, pending: _PendingAnswer, task: asyncio.Task[Frame | None]) -> None:
        self._waits.discard(task)
        self._unanswered.remove(pending.order)
        self._budget.give_back(pending.request_bytes)
        pending.task = None
        if task.cancelled():
            self.abort()
            return
        error = task.exception()
        if error is not None:
            self.refuse(str(error))
        if self._is_closing:
            return
        pending.frame = task.result()
        if pending is not self._line[0]:
            self._count_in_line(pending, 1)
        self._work_off_line()
        if self.gate is not None and self.gate.has_failed:
            # The answer says that the login failed; nothing more is worked on.
            self._flush()
            self.close()
            return
        self._work()

    def _cancel_waits(self) -> None:
        for task in list(self._waits):
            task.cancel()

    # --- answers ----------------------------------------------------------------------

    def _send_in_turn(self, frame: Frame) -> None:
        if self._line:
            pending = _PendingAnswer(frame)
            self._line.append(pending)
            self._count_in_line(pending, 1)
        else:
            self._outgoing.extend(frame)
            # Small answers go out together; large ones must be seen by the limits at once.
            if len(frame) > 1 or len(frame[0]) > UNSENT_NOTICE_BYTES:
                self._flush()

    def _work_off_line(self) -> None:
        line = self._line
        while line and line[0].task is None:
            pending = line.popleft()
            if pending.is_counted:
                self._count_in_line(pending, -1)
            if pending.frame is not None:
                self._outgoing.extend(pending.frame)

    def _count_in_line(self, pending: _PendingAnswer, sign: int) -> None:
        """Count a large answer into or out of those that wait in line; small ones are not worth it."""
        frame = pending.frame
        if frame is not None and (len(frame) > 1 or len(frame[0]) > UNSENT_NOTICE_BYTES):
            pending.is_counted = sign > 0
            self._line_bytes += sign * sum(map(len, frame))
            self._answers.set_unread(self, self.unread_bytes())

    def _flush(self) -> None:
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            self._transport.writelines(outgoing)
        if self._is_unsent:
            self._answers.set_unread(self, self.unread_bytes())

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
