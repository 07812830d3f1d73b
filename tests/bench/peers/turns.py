"""One run of the harness, and how it is kept fair: all peers take turns.

Every peer's server runs for the whole time; only the one whose turn it is has work. The first
round of a kind of work is thrown away for every server, so that virtual machines are warm. Who
begins changes from round to round. Whoever fails is out of the workload, with all its figures.
What one has written and deleted is on the disk and gone from it before the next has its turn.

Whoever waited for its turn must not pay for that in it. A system may drop pages of programs and
libraries that nobody has used for a minute, and a turn comes round less often than that. So a
workload may name a waking: a small piece of the same work that every server does right before each
timed turn. Its figures are forgotten, its messages are checked, deleted and cleared up as any others,
and whoever fails in it has failed in the workload.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeVar

from tests.bench.peers.findings import Failure, Measured, Sample
from tests.bench.peers.scale import Scale
from tests.bench.peers.servers import Peer, Server

T = TypeVar("T")
Work = Callable[[Peer, Server], dict[str, float]]

# Topics are called so. A server that removes later than this is not waited for.
TOPIC = "bench-"
REMOVE_SECONDS_MAX = 10.0


@dataclass(slots=True)
class Run:
    """Who takes part, how much is done, and what came of the workload that is under way."""

    peers: Sequence[Peer]
    scale: Scale
    directory: str | None
    on_step: Callable[[str], None]
    samples: list[Sample] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    _topics: int = 0
    _running: dict[tuple[str, bool], tuple[ExitStack, Server]] = field(default_factory=dict)
    # Which server has done which kind of work before.
    _warm: set[tuple[Server, str]] = field(default_factory=set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as ending:
            for stack, _server in self._running.values():
                ending.push(stack)

    def measure(self, name: str, workload: Callable[[Self], None]) -> Measured:
        """All of one workload, or nothing: it is no figure before all its rounds are done."""
        self.samples, self.failures = [], []
        at, load = datetime.now(UTC).isoformat(timespec="seconds"), os.getloadavg()[0]
        started = time.monotonic()
        workload(self)
        return Measured(name, at, round(time.monotonic() - started, 1), load, self.samples, self.failures)

    def topic(self) -> str:
        """A name that was not used before."""
        self._topics += 1
        return f"{TOPIC}{self._topics}"

    def offering(self, what: str) -> list[Peer]:
        """The peers that can do this."""
        return [peer for peer in self.peers if what in peer.offers]

    def count(self, peer: Peer, size: int, most: int) -> int:
        """How many messages of this size are a fair piece of work for the peer's client."""
        return self.scale.messages_for(peer.pace, size, most)

    def is_out(self, peer: Peer) -> bool:
        """Whether it has failed in this workload."""
        return any(one.peer == peer.name for one in self.failures)

    def attempt(self, peer: Peer, work: Callable[[], T]) -> T | None:
        """What came of it; None if it went wrong: then the peer is out, and the others go on without it."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - whatever a broker or its client breaks down with
            self.failures.append(Failure(peer.name, f"{type(error).__name__}: {error}"))
            self.samples[:] = [one for one in self.samples if one.peer != peer.name]
            # The next workload begins with a server that has not been through this.
            for durable in (False, True):
                stack, _ = self._running.pop((peer.name, durable), (ExitStack(), None))
                stack.close()
            return None

    def servers(self, peers: Sequence[Peer], *, durable: bool = False) -> list[tuple[Peer, Server]]:
        """All of them that start, running until the end of the run."""
        for peer in peers:
            if (peer.name, durable) not in self._running and not self.is_out(peer):
                self.attempt(peer, lambda peer=peer: self._start(peer, durable=durable))
        return [(peer, self._running[peer.name, durable][1]) for peer in peers if (peer.name, durable) in self._running]

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
        work: Work,
        *,
        kind: str | None = None,
        waking: Work | None = None,
        rounds: range | None = None,
    ) -> None:
        """Every peer once per round; a server that is new to this kind of work does a round before, which is forgotten.

        Without a kind nothing is forgotten. Without rounds they are the scale's own.
        """
        is_smoke = self.scale.name == "smoke"
        cold = [(peer, server) for peer, server in servers if kind and (server, kind) not in self._warm]
        if not is_smoke:
            for peer, server in cold:
                self._turn(peer, server, work, f"{workload}: {peer.name}, warm-up")
        self._warm |= {(server, kind or "") for _, server in cold}
        for number in range(self.scale.rounds) if rounds is None else rounds:
            for peer, server in servers if number % 2 == 0 else list(reversed(servers)):
                if waking is not None and not is_smoke:
                    self._turn(peer, server, waking, f"{workload}: {peer.name}, waking")
                figures = self._turn(peer, server, work, f"{workload}: {peer.name}, round {number + 1}")
                if figures is not None:
                    self.samples.append(Sample(workload, peer.name, number, figures))

    def _turn(self, peer: Peer, server: Server, work: Work, step: str) -> dict[str, float] | None:
        if self.is_out(peer):
            return None
        self.on_step(step)
        figures = self.attempt(peer, lambda: work(peer, server))
        if self.scale.name != "smoke":
            _clear_up(server)
        return figures

    def _start(self, peer: Peer, *, durable: bool) -> None:
        stack = ExitStack()
        self._running[peer.name, durable] = (stack, stack.enter_context(self.server(peer, durable=durable)))


def _clear_up(server: Server) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS_MAX
    while server.holds(f"{TOPIC}*") and time.monotonic() < deadline:
        time.sleep(0.05)
    os.sync()
