"""The audit log: who did what from where, and whether it was allowed.

Events wait in a bounded queue and are written together: to the internal topic `__audit`, which another node may lead
(`audit_topic`), and, if wanted, to a file of JSON lines. Logins, denials and administrative changes are always written;
reads and writes by choice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from goqueue.caller import Caller
from goqueue.clock import Clock
from goqueue.errors import StorageError
from goqueue.security.audit_topic import AuditTopic
from goqueue.security.model import Operation, Resource

AUDIT_TOPIC = "__audit"
_QUEUE_MAX = 10_000
_NAME_CHARS_MAX = 256
_WRITE_SECONDS = 0.05
_LOG_SECONDS = 10.0
# How long an administrative change waits for the node that leads the audit topic.
_CHANGE_S_MAX = 5.0
_log = logging.getLogger("goqueue.audit")

ADMINISTRATIVE = frozenset({Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS})
_DATA = frozenset({Operation.READ, Operation.WRITE})


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the audit log."""

    time: str
    # login, access or change.
    event: str
    principal: str
    decision: str
    address: str = ""
    protocol: str = ""
    client_id: str = ""
    request_id: str = ""
    method: str = ""
    operation: str = ""
    resource: str = ""
    name: str = ""
    reason: str = ""
    # The node of a cluster that the event is of.
    node_id: int = 0


# Writes lines somewhere for good; raises OSError or a GoQueueError if that fails.
Sink = Callable[[Sequence[bytes]], None]


class AuditLog:
    """Collects events and writes them from a task of its own."""

    def __init__(self, clock: Clock, *, with_data: bool, is_required: bool, node_id: int = 0) -> None:
        """`node_id` is written into events of a node of a cluster."""
        self._clock = clock
        self._node_id = node_id
        self._topic: AuditTopic | None = None
        self._with_data = with_data
        self._is_required = is_required
        self._waiting: deque[bytes] = deque()
        self._sinks: list[Sink] = []
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._failure = ""
        self._logged_at = -_LOG_SECONDS
        self.dropped = 0
        self.written = 0

    def add_sink(self, sink: Sink) -> None:
        """Write to this too."""
        self._sinks.append(sink)

    def write_to(self, topic: AuditTopic) -> None:
        """Write to the topic too, which may take a moment."""
        self._topic = topic
        self.add_sink(topic)

    def start(self) -> None:
        """Write from now on."""
        if self._topic is not None:
            self._topic.start()
        self._task = asyncio.create_task(self._write_forever())

    async def close(self) -> None:
        """Write what waits, and stop. A second close does no harm."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.flush()
        if self._topic is not None:
            await self._topic.close()

    # --- what happens -------------------------------------------------------------------

    def login(self, principal: str, method: str, address: str, reason: str) -> None:
        """Somebody logged in, or did not, for the reason."""
        decision = "denied" if reason else "allowed"
        # What somebody claims to be called may be as long as a request.
        claimed = principal[:_NAME_CHARS_MAX]
        self._add(
            AuditEvent(
                self._now(),
                "login",
                claimed,
                decision,
                address=address,
                method=method,
                reason=reason,
                node_id=self._node_id,
            )
        )

    @property
    def told(self) -> frozenset[Operation]:
        """Operations that are written down when they are allowed; denials always are."""
        return ADMINISTRATIVE | _DATA if self._with_data else ADMINISTRATIVE

    def __call__(
        self, caller: Caller, operation: Operation, resource: Resource, name: str, /, *, is_allowed: bool
    ) -> None:
        """An operation was allowed or denied. Raises if it is a change that must be written and cannot be."""
        is_change = operation in ADMINISTRATIVE
        if is_allowed and is_change and self._is_required and (failure := self.problem()):
            raise StorageError(f"the audit log cannot be written, so nothing is changed: {failure}")
        self._add(
            AuditEvent(
                self._now(),
                "change" if is_change else "access",
                caller.principal,
                "allowed" if is_allowed else "denied",
                address=caller.address,
                protocol=caller.protocol,
                client_id=caller.client_id,
                request_id=caller.request_id,
                operation=operation.name.lower(),
                resource=resource.name.lower(),
                name=name,
                node_id=self._node_id,
            )
        )

    async def changed(self, caller: Caller, what: str, *names: str) -> None:
        """Users, keys, roles, bindings or rules are changed. Written at once: it survives the end of the process."""
        # First what waits: a change is never the event for which there is no room.
        self.flush()
        for name in names:
            self._add(
                AuditEvent(
                    self._now(),
                    "change",
                    caller.principal,
                    "allowed",
                    address=caller.address,
                    protocol=caller.protocol,
                    client_id=caller.client_id,
                    request_id=caller.request_id,
                    operation=what,
                    resource="security",
                    name=name,
                    node_id=self._node_id,
                )
            )
        self.flush()
        failure = self._failure or await self._not_stored()
        if self._is_required and failure:
            raise StorageError(f"the audit log cannot be written, so nothing is changed: {failure}")

    def problem(self) -> str | None:
        """Why nothing can be written at present."""
        return self._failure or (self._topic.failure if self._topic is not None else "") or None

    async def _not_stored(self) -> str:
        """Why what was flushed is not stored; waits a moment for another node to store it."""
        if self._topic is None or (self._topic.failure and not self._is_required):
            return ""
        return await self._topic.stored(_CHANGE_S_MAX)

    # --- writing ------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what waits."""
        lines = list(self._waiting)
        self._waiting.clear()
        if not lines:
            return
        failure = ""
        for sink in self._sinks:
            try:
                sink(lines)
            except Exception as error:  # noqa: BLE001 - whatever breaks a sink, the others get the lines
                failure = str(error) or type(error).__name__
        self._failure = failure
        if failure:
            self.dropped += len(lines)
            self._warn(failure)
        else:
            self.written += len(lines)

    def _add(self, event: AuditEvent) -> None:
        if len(self._waiting) >= _QUEUE_MAX:
            self.dropped += 1
            return
        self._waiting.append(msgspec.json.encode(event))
        self._news.set()

    async def _write_forever(self) -> None:
        while True:
            await self._news.wait()
            # Events come in bursts: one write for all of them.
            await asyncio.sleep(_WRITE_SECONDS)
            self._news.clear()
            self.flush()

    def _warn(self, failure: str) -> None:
        now = self._clock.monotonic_ms() / 1000
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            _log.error("events of the audit log are lost: %s", failure)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
