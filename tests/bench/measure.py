"""Fair timing: rounds that alternate, medians, and a table of bars with what was met.

Two things are compared only within one run and one round, because the machine of the next
minute is another one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the report. `met` is None where nothing was promised."""

    what: str
    figure: str
    bar: str = ""
    met: bool | None = None


def at_least(what: str, figure: float, bar: float, *, unit: str = "", digits: int = 2) -> Bar:
    """A bar that a figure must reach."""
    return Bar(what, f"{figure:,.{digits}f}{unit}", f"≥ {bar:g}{unit}", figure >= bar)


def at_most(what: str, figure: float, bar: float, *, unit: str = "", digits: int = 2) -> Bar:
    """A bar that a figure must not pass."""
    return Bar(what, f"{figure:,.{digits}f}{unit}", f"≤ {bar:g}{unit}", figure <= bar)


def told(what: str, figure: float, *, unit: str = "", digits: int = 2) -> Bar:
    """A figure that stands beside the bars to explain them."""
    return Bar(what, f"{figure:,.{digits}f}{unit}")


def table(bars: Sequence[Bar]) -> str:
    """The bars in Markdown."""
    marks = {True: "met", False: "**not met**", None: ""}
    lines = ["| what | figure | bar | |", "|---|---:|---:|---|"]
    lines += [f"| {bar.what} | {bar.figure} | {bar.bar} | {marks[bar.met]} |" for bar in bars]
    return "\n".join(lines)


class Stopwatch:
    """Which seconds count: those on the wall, or those that this process had a processor.

    Work that waits for nothing takes as many of either on an idle machine. On one that
    others use too, only the second kind says something about the work.
    """

    clock: Callable[[], float] = time.perf_counter


def seconds_of(work: Callable[[], object]) -> float:
    """How long `work` takes, without a collection of somebody else's garbage in the middle."""
    gc.collect()
    clock = Stopwatch.clock
    started = clock()
    work()
    return clock() - started


def alternate(rounds: int, *works: Callable[[], float]) -> list[list[float]]:
    """Seconds of each work in each round; the works take turns, and who begins changes.

    Each work times itself with `seconds_of`, so that its preparation is not counted.
    """
    seconds: list[list[float]] = [[] for _ in works]
    for round_number in range(rounds):
        order = range(len(works)) if round_number % 2 == 0 else reversed(range(len(works)))
        for number in order:
            seconds[number].append(works[number]())
    return seconds


def speed_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Our speed as a share of theirs: the median over the rounds, each compared with itself."""
    return median(their / our for our, their in zip(ours, theirs, strict=True))


def rss_bytes() -> int:
    """Memory that this process has in RAM."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status tells no VmRSS")
