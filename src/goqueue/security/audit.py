"""The audit log: who did what from where, and whether it was allowed.

Events wait in a bounded queue and are written together: to the internal topic `__audit` and, if wanted, to a file of
JSON lines. Logins, denials and administrative changes are always written; reads and writes by choice.
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
from goqueue.security.model import Operation, Resource

AUDIT_TOPIC = "__audit"
_QUEUE_MAX = 10_000
_WRITE_SECONDS = 0.05
_LOG_SECONDS = 10.0
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


# Writes lines somewhere for good; raises OSError or a GoQueueError if that fails.
Sink = Callable[[Sequence[bytes]], None]


class AuditLog:
    """Collects events and writes them from a task of its own."""

    def __init__(self, clock: Clock, *, with_data: bool, is_required: bool) -> None:
        self._clock = clock
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

    def start(self) -> None:
        """Write from now on."""
        self._task = asyncio.create_task(self._write_forever())

    async def close(self) -> None:
        """Write what waits, and stop. A second close does no harm."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.flush()

    # --- what happens -------------------------------------------------------------------

    def login(self, principal: str, method: str, address: str, reason: str) -> None:
        """Somebody logged in, or did not, for the reason."""
        decision = "denied" if reason else "allowed"
        self._add(AuditEvent(self._now(), "login", principal, decision, address=address, method=method, reason=reason))

    def decided(
        self, caller: Caller, operation: Operation, resource: Resource, name: str, /, *, is_allowed: bool
    ) -> None:
        """An operation was allowed or denied. Raises if it is a change that must be written and cannot be."""
        is_change = operation in ADMINISTRATIVE
        if is_allowed and not is_change and not (self._with_data and operation in _DATA):
            return
        if is_allowed and is_change and self._is_required and self._failure:
            raise StorageError(f"the audit log cannot be written, so nothing is changed: {self._failure}")
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
            )
        )

    def changed(self, caller: Caller, what: str, name: str) -> None:
        """A user, key, role, binding or rule was changed. Written at once: it survives the end of the process."""
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
            )
        )
        self.flush()
        if self._is_required and self._failure:
            raise StorageError(f"the audit log cannot be written, so nothing is changed: {self._failure}")

    def problem(self) -> str | None:
        """Why nothing can be written at present."""
        return self._failure or None

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
