"""Reloads: a shard that was dropped is loaded again by itself, since its timers stand still until then.

Each attempt waits twice as long as the one before, up to a maximum. A shard that stayed up for long begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from goqueue.clock import Clock, Timer
from goqueue.errors import LogPoisoned, NotFound, NotLeader, ShuttingDown

ShardId = TypeVar("ShardId", bound=Hashable)

PAUSE_MS_MIN = 1000
PAUSE_MS_MAX = 8000
# A shard that failed last before this was well in between.
_WELL_MS = 60_000

# Loading again cannot help: another node has the shard, its topic is gone, or its log takes no writes until a restart.
_FINAL = (NotLeader, NotFound, LogPoisoned, ShuttingDown)


class Reloads(Generic[ShardId]):
    """When each dropped shard is loaded again. `load` is called on the loop and does not raise."""

    def __init__(self, clock: Clock, load: Callable[[ShardId], None]) -> None:
        self._clock = clock
        self._load = load
        self._timers: dict[ShardId, Timer] = {}
        # The last pause of a shard, and when it was dropped last.
        self._last: dict[ShardId, tuple[int, int]] = {}

    def dropped(self, shard: ShardId, reason: BaseException) -> None:
        """Load the shard again after a pause, if that can help."""
        self.cancel(shard)
        if isinstance(reason, _FINAL):
            return
        now_ms = self._clock.monotonic_ms()
        pause_ms, dropped_ms = self._last.get(shard, (0, 0))
        is_first = not pause_ms or now_ms - dropped_ms >= _WELL_MS
        pause_ms = PAUSE_MS_MIN if is_first else min(2 * pause_ms, PAUSE_MS_MAX)
        self._last[shard] = (pause_ms, now_ms)
        self._timers[shard] = self._clock.call_later(pause_ms, lambda: self._ring(shard))

    def cancel(self, shard: ShardId) -> None:
        """The shard is being loaded by somebody who uses it, or is not ours."""
        timer = self._timers.pop(shard, None)
        if timer is not None:
            timer.cancel()

    def forget(self, shard: ShardId) -> None:
        """The shard is gone for good."""
        self.cancel(shard)
        self._last.pop(shard, None)

    def close(self) -> None:
        """Load nothing more."""
        for shard in list(self._timers):
            self.cancel(shard)

    def _ring(self, shard: ShardId) -> None:
        self._timers.pop(shard, None)
        self._load(shard)
