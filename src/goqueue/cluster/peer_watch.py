"""What this node finds out from its peers every few seconds: whether they answer, how fast, and what their clocks say.

Nothing is decided by it: who is alive is decided by sessions in the metadata store. A clock that is off makes
timestamps, delays and retention wrong, and is hard to notice otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from goqueue.errors import GoQueueError
from goqueue.histogram import Histogram
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.clock import Clock
    from goqueue.cluster.calls import PeerCalls

_log = logging.getLogger("goqueue.cluster")

SKEW_MS_WARNED = 500
_EVERY_S = 5.0
_ANSWER_MS_MAX = 3_000
# The fastest of the last answers tells the most about a clock.
_SAMPLES = 8
_CLOCK, _LAGS = "watch.clock", "watch.lags"


class Lag(msgspec.Struct, frozen=True, array_like=True):
    """A replica that is behind the leader of its partition; `records` is -1 while its position is not known."""

    topic: str
    partition: int
    node_id: int
    records: int


class _Sample(NamedTuple):
    round_trip_ms: float
    skew_ms: int


# The replicas that are behind what this node leads.
LocalLags = Callable[[], list[Lag]]


class PeerWatch:
    """Asks the living peers, and answers them."""

    def __init__(
        self,
        node_id: int,
        calls: PeerCalls,
        clock: Clock,
        living: Callable[[], Collection[int]],
        local_lags: LocalLags,
    ) -> None:
        self._node_id = node_id
        self._calls = calls
        self._clock = clock
        self._living = living
        self._local_lags = local_lags
        self._samples: dict[int, deque[_Sample]] = {}
        self._warned: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self.received = 0
        self.missed: Counter[int] = Counter()
        self.round_trips: dict[int, Histogram] = {}
        calls.serve(_CLOCK, self._tell_clock)
        calls.serve(_LAGS, self._tell_lags)

    def start(self) -> None:
        """Ask from now on."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def skew_ms(self, node_id: int) -> int | None:
        """How far the clock of a node is ahead of this node's; None if that is not known."""
        if node_id == self._node_id:
            return 0
        best = self._best(node_id)
        return None if best is None else best.skew_ms

    def skewed(self) -> dict[int, int]:
        """The living nodes whose clocks are certainly further off than is tolerated, with their skew."""
        found: dict[int, int] = {}
        for node_id in sorted(self._living()):
            best = self._best(node_id)
            if best is not None and abs(best.skew_ms) - best.round_trip_ms / 2 > SKEW_MS_WARNED:
                found[node_id] = best.skew_ms
        return found

    def warning(self) -> str | None:
        """What an operator should know of the clocks; None if all agree."""
        found = self.skewed()
        if not found:
            return None
        rows = ", ".join(f"node {node_id} by {skew_ms} ms" for node_id, skew_ms in found.items())
        return f"clocks differ from this node's by more than {SKEW_MS_WARNED} ms: {rows}; check NTP on these machines"

    def local_lags(self) -> list[Lag]:
        """The replicas that are behind what this node leads."""
        return self._local_lags()

    async def lags(self) -> tuple[dict[TopicPartition, dict[int, int]], frozenset[int]]:
        """Replicas that are behind, of all partitions, and the leaders that answered: a replica not named is not."""
        others = sorted(set(self._living()) - {self._node_id})
        answers = await asyncio.gather(*(self._ask_lags(node_id) for node_id in others))
        found: dict[TopicPartition, dict[int, int]] = {}
        answered = {self._node_id}
        for node_id, lags in ((self._node_id, self._local_lags()), *zip(others, answers, strict=True)):
            if lags is not None:
                answered.add(node_id)
                for one in lags:
                    found.setdefault(TopicPartition(one.topic, one.partition), {})[one.node_id] = one.records
        return found, frozenset(answered)

    async def look(self) -> None:
        """Ask every living peer once."""
        others = sorted(set(self._living()) - {self._node_id})
        await asyncio.gather(*(self._ask_clock(node_id) for node_id in others))
        for node_id in self._samples.keys() - set(others):
            # It may come back on another machine.
            del self._samples[node_id]
        self._warn()

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - without this loop nobody would hear of clocks that differ
                _log.exception("the other nodes could not be asked for their clocks, and will be asked again")
            await asyncio.sleep(_EVERY_S)

    async def _ask_clock(self, node_id: int) -> None:
        sent_ms, began = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            raw = await self._calls.call(node_id, _CLOCK, b"", timeout_ms=_ANSWER_MS_MAX)
        except GoQueueError:
            self.missed[node_id] += 1
            return
        round_trip_ms = self._clock.monotonic_ms() - began
        skew_ms = msgspec.msgpack.decode(raw, type=int) - round(sent_ms + round_trip_ms / 2)
        self._samples.setdefault(node_id, deque(maxlen=_SAMPLES)).append(_Sample(round_trip_ms, skew_ms))
        self.round_trips.setdefault(node_id, Histogram()).add(round_trip_ms / 1000)

    async def _ask_lags(self, node_id: int) -> list[Lag] | None:
        try:
            raw = await self._calls.call(node_id, _LAGS, b"", timeout_ms=_ANSWER_MS_MAX)
        except GoQueueError:
            return None
        return msgspec.msgpack.decode(raw, type=list[Lag])

    def _best(self, node_id: int) -> _Sample | None:
        return min(self._samples.get(node_id, ()), default=None)

    def _warn(self) -> None:
        found = self.skewed()
        for node_id in found.keys() - self._warned:
            _log.warning("the clock of node %d differs from this node's by %d ms", node_id, found[node_id])
        self._warned = set(found)

    async def _tell_clock(self, _body: bytes, _peer: int) -> bytes:
        self.received += 1
        return msgspec.msgpack.encode(self._clock.now_ms())

    async def _tell_lags(self, _body: bytes, _peer: int) -> bytes:
        return msgspec.msgpack.encode(self._local_lags())
