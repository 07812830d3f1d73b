"""Stories of many lives: a world works, its node dies at some step of the disk, and what it promised is looked at.

One seed decides everything: `GOQUEUE_SIM_SEED=7 pytest tests/sim/test_node_crashes.py` plays seed 7 alone.
`GOQUEUE_SIM_SEEDS=500` plays the deep tests with so many seeds, `GOQUEUE_SIM_SEEDS=100-200` with a part of them: those
that ask for many (`seeds`), and those that have a seed as their parameter (`each_seed`), which are slow ones then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import pytest

from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode

ENDS = ("stop", "kill", "crash", "crash", "crash at start")


class World(Protocol):
    """A node and its clients, who remember over all lives what they were promised."""

    node: SimNode

    async def work(self, services: Services) -> None:
        """Make promises."""

    async def check(self, services: Services) -> None:
        """See that every promise is kept."""


W = TypeVar("W", bound=World)
Make = Callable[[int], W]


# Tests that ask for so many seeds are those that `make sim SEEDS=...` makes deeper.
_DEEP = 100


def seeds(count: int) -> range | list[int]:
    chosen, wanted = os.environ.get("GOQUEUE_SIM_SEED"), os.environ.get("GOQUEUE_SIM_SEEDS")
    if chosen:
        return [int(chosen)]
    if not wanted or count < _DEEP:
        return range(count)
    return _part(wanted)


def each_seed(count: int) -> list[Any]:
    """Seeds of a test that has one as its parameter: so many in `make test`, and as many as it says in `make sim`."""
    chosen, wanted = os.environ.get("GOQUEUE_SIM_SEED"), os.environ.get("GOQUEUE_SIM_SEEDS")
    if chosen:
        return [int(chosen)]
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in _part(wanted)] if wanted else list(range(count))


def _part(wanted: str) -> range:
    first, _, behind = wanted.rpartition("-")
    return range(int(first or 0), int(behind))


@contextmanager
def named(seed: int, **details: object) -> Iterator[None]:
    """Say with every failure how to see it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"GOQUEUE_SIM_SEED={seed} {details}")
        raise


def live_in_peace(make: Make[W], seed: int, lives: int) -> W:
    """Lives that all stop in order, then a look; returns the world for more of it."""
    with named(seed):
        world = make(seed)
        for _ in range(lives):
            assert world.node.live(world.work)
        assert world.node.live(world.check)
        return world


def steps_of_a_life(make: Make[W], seed: int) -> int:
    """How many steps of the disk a life has."""
    world = make(seed)
    assert world.node.live(world.work)
    return world.node.files.faults.steps


def crash_once(make: Make[W], seed: int, step: int) -> bool:
    """A life that ends at this step, one that looks, one that works on, one that looks again. False: no such step."""
    with named(seed, step=step):
        world = make(seed)
        crashed = not world.node.live(world.work, crash_at_step=step)
        assert world.node.live(world.check)
        assert world.node.live(world.work)
        assert world.node.live(world.check)
        return crashed


def crash_at(make: Make[W], seed: int, chosen: Callable[[int], Sequence[int]]) -> None:
    """One story for each step chosen out of so many; nearly all of them are met."""
    steps = steps_of_a_life(make, seed)
    assert steps > 100
    at = chosen(steps)
    crashed = sum(crash_once(make, seed, step) for step in at)
    assert crashed >= len(at) * 0.9


def crash_at_every_step(make: Make[W], seed: int) -> None:
    for step in range(1, steps_of_a_life(make, seed)):
        crash_once(make, seed, step)


def live_many_lives(
    make: Make[W],
    seed: int,
    lives: int,
    *,
    ends: Sequence[str] = ENDS,
    before: Callable[[W, str], None] = lambda _world, _end: None,
) -> W:
    """One world, many lives of random ends. `before` each, the world may prepare for its end."""
    with named(seed):
        world = make(seed)
        rng = seeded_rng(seed, "ends")
        for _ in range(lives):
            end = rng.choice(ends)
            steps = {"crash": rng.randrange(1, 500), "crash at start": rng.randrange(1, 40)}.get(end)
            before(world, end)
            story = world.work if rng.random() < 0.7 else world.check
            world.node.live(story, crash_at_step=steps, is_killed=end == "kill")
        assert world.node.live(world.check)
        return world
