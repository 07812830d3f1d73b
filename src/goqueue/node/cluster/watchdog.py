"""Watchdog: a thread that notices when the event loop hangs, and says in the log where it hangs.

Whatever holds up the loop holds up the renewal of the session: a stall of some seconds costs the node its leaderships.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

_log = logging.getLogger("goqueue.cluster")

STALL_S = 0.1
_BEAT_S = 0.05
# Of stalls that follow each other the first is shown, and the others are counted.
_QUIET_S = 10.0


class Watchdog:
    """Watches the loop that it is started on."""

    def __init__(self, *, stall_s: float = STALL_S) -> None:
        self._stall_s = stall_s
        self._beat_s = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        # Since the start.
        self.stalls = 0

    def start(self) -> None:
        """Begin to watch."""
        self._beat()
        watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(watched,), name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        self._beat_s = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    def _watch(self, watched: int) -> None:
        told_s, untold, seen_beat_s = -_QUIET_S, 0, 0.0
        while not self._ended.wait(_BEAT_S):
            beat_s, now_s = self._beat_s, time.monotonic()
            if now_s - beat_s < _BEAT_S + self._stall_s or beat_s == seen_beat_s:
                continue
            seen_beat_s = beat_s
            self.stalls += 1
            if now_s - told_s < _QUIET_S:
                untold += 1
                continue
            frame = sys._current_frames().get(watched)  # noqa: SLF001 - the documented way to another thread's stack
            stack = "" if frame is None else "".join(traceback.format_stack(frame, limit=8))
            more = f" ({untold} others since the last such line)" if untold else ""
            _log.warning("the event loop has hung for %.2f s%s:\n%s", now_s - beat_s - _BEAT_S, more, stack)
            told_s, untold = now_s, 0
