"""Writes that the disk refuses: told in the log when it begins and when it ends, counted, and shown by `/readyz`.

A failure belongs to the log in one directory and to one error. It ends when that log writes again: the success of a
neighbour says nothing about it. But a broker that is not ready gets no more writes. So while writes fail, a small file
is written once a second, and its success ends what concerns the whole node (no space, read-only, no handles), as soon
as no write has failed for a moment. It also ends what belonged to one log that has not failed for a minute.
A log whose *sync* failed is another matter: it takes no more writes until the broker is restarted, and is shown with
the logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import threading
from collections import Counter
from dataclasses import dataclass, field

from goqueue.clock import Clock, Timer
from goqueue.ports import Files, Offload

_log = logging.getLogger("goqueue.storage")

PROBE_FILE = "write-probe"
PROBE_MS = 1000
# A few blocks: the last bytes of a disk are no room.
PROBE_BYTES = 64 * 1024
# How often one kind of failure is told, whether it goes on or comes and goes.
REPEAT_MS = 60_000
# For so long no write may have failed before a probe can end what concerns the whole node.
QUIET_MS = 2 * PROBE_MS
# The same for a failure of one log, which the probe says little about.
LOG_QUIET_MS = 60_000

NODE_WIDE = frozenset({"ENOSPC", "EDQUOT", "EROFS", "EMFILE", "ENFILE"})


@dataclass(slots=True)
class _Failing:
    """One kind of error: the logs that meet it now, and what was told of it."""

    name: str
    # When a write failed last, by directory. Empty: it has ended.
    failed_ms: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    count: int = 0
    told_ms: int | None = None
    told_count: int = 0
    # A line said that it began, and none yet that it ended.
    is_told: bool = False

    def __str__(self) -> str:
        directories = iter(self.failed_ms)
        first = next(directories, "no log")
        more = f" and {len(self.failed_ms) - 1} more" if len(self.failed_ms) > 1 else ""
        return f"{self.name} ({self.reason}) in {first}{more}"

    def may_tell(self, now_ms: int) -> bool:
        return self.told_ms is None or now_ms >= self.told_ms + REPEAT_MS

    def note_told(self, now_ms: int) -> int:
        """How many failures the line is about."""
        since, self.told_count = self.count - self.told_count, self.count
        self.told_ms = now_ms
        return since


class WriteFailures:
    """The observer of all logs of a node. Lives on the event loop, but may be told by any thread."""

    def __init__(self, files: Files, *, clock: Clock, offload: Offload, free_bytes_min: int) -> None:
        self.is_failing = False
        # By the name of the error; syncs count apart, since each of them costs a log its writes.
        self.counts: Counter[str] = Counter()
        self.sync_counts: Counter[str] = Counter()
        self._files = files
        self._clock = clock
        self._offload = offload
        self._free_bytes_min = free_bytes_min
        # By the name of the error: at most as many as there are kinds of errors, each with the logs that there are.
        self._kinds: dict[str, _Failing] = {}
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._probing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """From now on a failure is followed until it ends."""
        self._loop = asyncio.get_running_loop()
        if self.is_failing:
            self._probe_later()

    async def close(self) -> None:
        """Follow nothing more. A second close does no harm."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        if self._probing is not None:
            await asyncio.wait([self._probing])

    def problem(self) -> str | None:
        """What fails now, for `/readyz`."""
        with self._lock:
            failing = [str(kind) for kind in self._kinds.values() if kind.failed_ms]
        return "writes fail: " + "; ".join(failing) if failing else None

    # --- the port: what logs say ----------------------------------------------------------

    def failed(self, directory: str, error: OSError) -> None:
        """Count it, and tell it when it is the first of its kind, or has not been told for long."""
        name, now_ms = name_of(error), self._clock.monotonic_ms()
        with self._lock:
            self.counts[name] += 1
            kind = self._kinds.setdefault(name, _Failing(name))
            kind.failed_ms[directory] = now_ms
            kind.reason = error.strerror or str(error)
            kind.count += 1
            if kind.may_tell(now_ms):
                line = "writing still fails" if kind.is_told else "writing fails"
                kind.is_told = True
                _log.error("%s: %s, %d failures since the last such line", line, str(kind), kind.note_told(now_ms))
            starts, self.is_failing = not self.is_failing, True
        if starts:
            self._follow()

    def sync_failed(self, directory: str, error: BaseException) -> None:
        """Count it and tell it: it happens once to a log."""
        self.sync_counts[name_of(error)] += 1
        _log.error("the sync of %s failed, and it takes no writes until the broker is restarted: %s", directory, error)

    def succeeded(self, directory: str) -> None:
        """What failed for this log has passed."""
        with self._lock:
            for kind in self._kinds.values():
                if kind.failed_ms.pop(directory, None) is not None and not kind.failed_ms:
                    self._ended(kind, directory)
            self._settle()

    def _probe_succeeded(self) -> None:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for kind in self._kinds.values():
                quiet_ms = QUIET_MS if kind.name in NODE_WIDE else LOG_QUIET_MS
                recent = {one: at_ms for one, at_ms in kind.failed_ms.items() if now_ms < at_ms + quiet_ms}
                if kind.name in NODE_WIDE and recent:
                    # It is one failure of the node, and goes on.
                    continue
                was_failing, kind.failed_ms = bool(kind.failed_ms), recent
                if was_failing and not recent:
                    self._ended(kind, "the data directory")
            self._settle()

    def _ended(self, kind: _Failing, where: str) -> None:
        # What comes and goes is told once in a while, with how often it came.
        if kind.is_told:
            kind.is_told = False
            since = kind.count - kind.told_count
            _log.warning(
                "writing succeeds again in %s after %d failures with %s, %d since the last such line",
                where,
                kind.count,
                kind.name,
                since,
            )
            kind.told_count = kind.count

    def _settle(self) -> None:
        self.is_failing = any(kind.failed_ms for kind in self._kinds.values())

    # --- following ------------------------------------------------------------------------

    def _follow(self) -> None:
        loop = self._loop
        if loop is not None:
            # Perhaps a thread's failure: timers are the loop's.
            loop.call_soon_threadsafe(self._probe_later)

    def _probe_later(self) -> None:
        if self.is_failing and self._loop is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._clock.call_later(PROBE_MS, self._probe)

    def _probe(self) -> None:
        self._timer = None
        if self._loop is not None and self._probing is None:
            self._probing = self._loop.create_task(self._try())

    async def _try(self) -> None:
        try:
            await self._offload(self._write)
        except OSError:
            pass
        else:
            self._probe_succeeded()
        finally:
            self._probing = None
            self._probe_later()

    def _write(self) -> None:
        if self._files.free_bytes() < max(self._free_bytes_min, PROBE_BYTES):
            raise OSError(errno.ENOSPC, "too little space is left")
        try:
            self._files.replace(PROBE_FILE, bytes(PROBE_BYTES))
        finally:
            with contextlib.suppress(OSError):
                self._files.remove(PROBE_FILE)


def name_of(error: BaseException) -> str:
    """ENOSPC and the like; the kind of an error that has no number."""
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number, str(number)) if number is not None else type(error).__name__
