"""The picture of weighted lanes beside strict priority, made with the scheduler that the broker uses.

    python tools/plot_lanes.py docs/images/lanes.svg

Every tenth of a second 120 messages arrive and 100 are taken, so a backlog grows. Arrivals are the same in both halves.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from goqueue.delivery.lanes.lane_scheduler import LANES, LaneScheduler

NAMES = ("critical", "high", "normal", "low", "background")
WEIGHTS = (50, 25, 15, 7, 3)
# Of each lane, in every step; together more than is taken.
ARRIVE = (40, 30, 25, 15, 10)
TAKEN = 100
STEP_MS = 100
STEPS = 600


def shares(*, strict: bool, steps: int = STEPS, arrive: Sequence[int] = ARRIVE) -> list[list[int]]:
    """How many messages each lane was given in each step."""
    scheduler, waiting, given = LaneScheduler(), [0] * LANES, []
    for step in range(steps):
        waiting = [have + new for have, new in zip(waiting, arrive, strict=True)]
        row = [0] * LANES
        picks = scheduler.pick(waiting, TAKEN, step * STEP_MS, weights=WEIGHTS, starvation_ms=30_000, strict=strict)
        for lane, count in picks:
            row[lane] += count
            waiting[lane] -= count
        given.append(row)
    return given


def draw(path: Path) -> None:
    """Write the picture as SVG; the same input gives the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "goqueue"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for axis, strict in zip(axes, (False, True), strict=True):
        given = shares(strict=strict)
        seconds = [(number + 1) * STEP_MS / 1000 for number in range(len(given))]
        total = [0] * LANES
        sums = [[total := [have + new for have, new in zip(total, row, strict=True)]][0] for row in given]
        for lane, name in enumerate(NAMES):
            axis.plot(seconds, [row[lane] for row in sums], label=name)
        axis.set_title("strict priority" if strict else "weighted lanes (50, 25, 15, 7, 3)")
        axis.set_xlabel("seconds")
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("messages delivered since the start")
    axes[0].legend(loc="upper left")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
