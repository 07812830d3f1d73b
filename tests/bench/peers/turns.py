"""One run of the harness, and how it is kept fair: all peers take turns.

Every peer's server runs for the whole time; only the one whose turn it is has work. The first
round is thrown away, so that virtual machines are warm. Who begins changes from round to round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.bench.peers.common import Wrong
from tests.bench.peers.servers import Peer, Server


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    name: str
    rounds: int
    # Messages by their size in bytes.
    messages: dict[int, int]
    slow_messages: int
    rates: tuple[int, ...]
    latency_seconds: float
    partitions: tuple[int, ...]
    log_gib: tuple[int, ...] = ()


SMOKE = Scale("smoke", 1, {100: 2_000}, 1_000, (200,), 0.5, (1, 10))
QUICK = Scale("quick", 3, {100: 200_000, 1000: 100_000, 10_000: 20_000}, 20_000, (1000, 5000), 3, (1, 10, 100))
FULL = Scale(
    "full", 5, {100: 2_000_000, 1000: 600_000, 10_000: 60_000}, 50_000, (1000, 5000), 20, (1, 10, 100), (1, 10)
)
SCALES = {scale.name: scale for scale in (SMOKE, QUICK, FULL)}


@dataclass(frozen=True, slots=True)
class Sample:
    """What one peer did in one round."""

    workload: str
    peer: str
    round: int
    figures: dict[str, float]


@dataclass(slots=True)
class Run:
    """One run of the harness: who takes part, how much is done, and what came of it."""

    peers: Sequence[Peer]
    scale: Scale
    directory: str | None
    on_step: Callable[[str], None]
    samples: list[Sample] = field(default_factory=list)
    _topics: int = 0
    _running: dict[tuple[str, bool], tuple[Peer, Server]] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def topic(self) -> str:
        """A name that was not used before."""
        self._topics += 1
        return f"bench-{self._topics}"

    def offering(self, what: str) -> list[Peer]:
        """The peers that can do this."""
        return [peer for peer in self.peers if what in peer.offers]

    def servers(self, peers: Sequence[Peer], *, durable: bool = False) -> list[tuple[Peer, Server]]:
        """All of them, running until the end of the run."""
        for peer in peers:
            if (peer.name, durable) not in self._running:
                self._running[peer.name, durable] = (
                    peer,
                    self._stack.enter_context(self.server(peer, durable=durable)),
                )
        return [self._running[peer.name, durable] for peer in peers]

    @contextmanager
    def server(self, peer: Peer, *, durable: bool = False) -> Iterator[Server]:
        """One, for a while."""
        self.on_step(f"starting {peer.name}")
        with (
            tempfile.TemporaryDirectory(dir=self.directory, ignore_cleanup_errors=True) as home,
            peer.start(Path(home), durable=durable) as server,
        ):
            yield server

    def take_turns(
        self,
        workload: str,
        servers: Sequence[tuple[Peer, Server]],
        work: Callable[[Peer, Server], dict[str, float]],
        *,
        warm_up: bool = True,
    ) -> None:
        """Every peer once per round; the warm-up round is done and forgotten."""
        first = -1 if warm_up and self.scale is not SMOKE else 0
        for number in range(first, self.scale.rounds):
            order = servers if number % 2 == 0 else list(reversed(servers))
            for peer, server in order:
                self.on_step(f"{workload}: {peer.name}, " + (f"round {number + 1}" if number >= 0 else "warm-up"))
                try:
                    figures = work(peer, server)
                except Wrong as error:
                    raise Wrong(f"{workload}, {peer.name}: {error}") from error
                if number >= 0:
                    self.samples.append(Sample(workload, peer.name, number, figures))
