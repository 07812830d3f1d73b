"""Does a message cost more when the log is long? The same work behind 1, 10, 30 GiB that are there already.

All logs of a peer lie in one server and take turns, so that each round compares them with each
other. One peer after the other: the disk need not hold it all twice.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from tests.bench.peers.calls import PARTITIONS, caller, rates, same
from tests.bench.peers.common import DISTINCT, expected_checksum
from tests.bench.peers.findings import Sample
from tests.bench.peers.scale import Scale
from tests.bench.peers.servers import Peer, Server
from tests.bench.peers.turns import Run

SIZE, FILLER_SIZE = 1000, 10_000
# Every partition gets the same number of messages.
STEP = DISTINCT * PARTITIONS
# Filled in pieces, each by a client of its own: progress can be shown, and none takes too long.
PIECE = 2 * 2**30 // FILLER_SIZE // STEP * STEP
# Records have headers and logs have indexes; and a disk that runs full slows down before.
OVERHEAD, RESERVE_BYTES = 1.02, 2 * 2**30


def log_sizes(run: Run) -> None:
    """1 KB messages, produced and read at the end of logs of several sizes."""
    for peer in run.offering("partitions"):
        run.attempt(peer, lambda peer=peer: _one_peer(run, peer))


def title(gib: float) -> str:
    """The heading of a log's figures."""
    return f"{gib:g} GiB in the log"


def room_missing(scale: Scale, directory: str | None) -> str | None:
    """Why the disk cannot hold what is to be written, or None."""
    place = directory or tempfile.gettempdir()
    behind = len(scale.log_gib) * (scale.throughput_rounds + 1) * _count(scale) * SIZE
    need = (sum(scale.log_gib) * 2**30 + behind) * OVERHEAD + RESERVE_BYTES
    free = shutil.disk_usage(place).free
    if free >= need:
        return None
    logs = " + ".join(f"{gib:g}" for gib in scale.log_gib)
    return (
        f"logs of {logs} GiB need {need / 2**30:.1f} GiB at {place}, and {free / 2**30:.1f} GiB are free there: "
        "give smaller ones to --log-gib, or a --directory on a larger disk"
    )


def _one_peer(run: Run, peer: Peer) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(run.server(peer))
        works = [(title(gib), _filled(run, peer, server, gib)) for gib in run.scale.log_gib]
        # What was filled in is on the disk before anything is measured.
        run.on_step(f"{peer.name}: writing back")
        os.sync()
        first = 0 if run.scale.name == "smoke" else -1
        for number in range(first, run.scale.throughput_rounds):
            for name, work in works if number % 2 == 0 else list(reversed(works)):
                run.on_step(f"{name}: {peer.name}, " + (f"round {number + 1}" if number >= 0 else "warm-up"))
                figures = work()
                if number >= 0:
                    run.samples.append(Sample(name, peer.name, number, figures))


def _filled(run: Run, peer: Peer, server: Server, gib: float) -> Callable[[], dict[str, float]]:
    """A topic that holds so much, and the work at its end."""
    call = caller(peer, server, f"filled-{gib:g}")
    call("create", partitions=PARTITIONS, durable=False)
    there, count = 0, _count(run.scale)
    for piece in _pieces(gib):
        run.on_step(f"{title(gib)}: filling {peer.name}, {there * FILLER_SIZE / 2**30:.0f} GiB are there")
        call("produce", partitions=PARTITIONS, size=FILLER_SIZE, count=piece, durable=False)
        there += piece
    same(call("stored", partitions=PARTITIONS)["count"], there, "stored messages")

    def work() -> dict[str, float]:
        nonlocal there
        before = server.cpu_seconds()
        produced = call("produce", partitions=PARTITIONS, size=SIZE, count=count, durable=False)
        read = call("consume", partitions=PARTITIONS, count=count, skip=there // PARTITIONS)
        cpu = server.cpu_seconds() - before
        same(read["checksum"], expected_checksum(SIZE, count), "checksum")
        there += count
        same(call("stored", partitions=PARTITIONS)["count"], there, "stored messages")
        return rates(count, produced["seconds"], read["seconds"], cpu)

    return work


def _pieces(gib: float) -> Iterator[int]:
    left = max(1, round(gib * 2**30 / FILLER_SIZE / STEP)) * STEP
    while left > 0:
        yield min(left, PIECE)
        left -= PIECE


def _count(scale: Scale) -> int:
    return max(1, scale.messages.get(SIZE, STEP) // STEP) * STEP
