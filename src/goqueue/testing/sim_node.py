"""SimNode: one whole node in simulation, through as many lives as the test wants.

The node is the real one, from its composition root: only files, clock, chance and the threads
for blocking work are handed in. A life starts the node, plays a story on its services and ends
it: in order, by a kill, or by a power cut, which may also come at any chosen step of the disk
in the middle of the story.

    node = SimNode(seed=7)
    node.live(story, crash_at_step=12)      # False: the power went; node.files is what survived
    node.live(another_story)                # the next life, on the same disk
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.config import Config
from goqueue.node.assemble import assemble
from goqueue.node.assembly.tools import directly
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.flaky_appends import AppendFaults, FlakyAppends
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import DelayedOffload, SimLoop, Stuck

_BURIALS_MAX = 5
_BURIAL_SECONDS_MAX = 3600

Story = Callable[[Services], Awaitable[None]]


class SimNode:
    """A node whose every chance comes from one seed."""

    def __init__(
        self, seed: int, config: Config | None = None, *, stories: bool = False, appends: AppendFaults | None = None
    ) -> None:
        """With `stories` it records what happens to messages, which takes steps of the disk of its own.

        With `appends`, appends to partitions that another node might lead are slow, lost, repeated and ambiguous.
        """
        self.seed = seed
        self.config = config or Config()
        if not stories:
            self.config = replace(self.config, tracing=replace(self.config.tracing, enabled=False))
        self.clock = ManualClock()
        self.files = MemoryFiles(seed=seeded_rng(seed, "disk").getrandbits(64))
        self.lives = 0
        self._append_faults = appends
        self._rng = seeded_rng(seed, "lives")

    def live(
        self,
        story: Story,
        *,
        crash_at_step: int | None = None,
        survival: Survival | None = None,
        is_killed: bool = False,
    ) -> bool:
        """Play one life; True if the story was played to its end.

        `crash_at_step` counts the steps of this life, from 1. After a crash `survival` says what is left (drawn from
        the seed unless given). With `is_killed` the node is not stopped in order when the story ends: the process is
        gone.
        """
        self.lives += 1
        faults = self.files.faults
        # Counted from here: the disk counts on from the life before, unless that ended in a power cut.
        faults.crash_at_step = None if crash_at_step is None else faults.steps + crash_at_step
        files, clock = self.files, self.clock
        loop = SimLoop(clock, order=self._chance("order"), halts=lambda: files.is_down)
        try:
            self._run(loop, self._life(story, is_killed=is_killed))
        except Crash:
            self.files = files.crash(survival or self._rng.choice(list(Survival)))
            return False
        if is_killed:
            self.files = files.kill()
        else:
            loop.raise_unhandled()
        return True

    async def _life(self, story: Story, *, is_killed: bool) -> None:
        node = assemble(
            self.config,
            files=self.files,
            clock=self.clock,
            rng=self._chance("node"),
            offload=DelayedOffload(self._chance("offload")),
            appends=self._flaky if self._append_faults is not None else directly,
        )
        running = await node.start()
        await story(running.services)
        if not is_killed:
            await node.stop()

    def _run(self, loop: SimLoop, life: Coroutine[Any, Any, None]) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(life)
        finally:
            bury(loop)
            asyncio.set_event_loop(None)

    def _flaky(self, append: AppendAnywhere) -> AppendAnywhere:
        return FlakyAppends(append, self._append_faults or AppendFaults(), self._chance("appends"))

    def _chance(self, purpose: str) -> Random:
        return seeded_rng(self.seed, self.lives, purpose)


def bury(loop: SimLoop) -> None:
    """End what is left of a life. Some of it waits for a disk that is gone and cannot be helped."""
    for _ in range(_BURIALS_MAX):
        tasks = asyncio.all_tasks(loop)
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        # RuntimeError: a stop that was on its way when the power went stops this run instead. Time is bounded, for
        # what waits for the dead disk may be kept company by timers that are set again and again.
        with suppress(Stuck, Crash, RuntimeError):
            loop.run_until_complete(asyncio.wait(tasks, timeout=_BURIAL_SECONDS_MAX))
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()
    loop.close()
