"""A migration says how far it is once it takes longer than a second, whatever it is at; a quick one says nothing."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fixtures.former_layout.reading import load

from goqueue.config import Config
from goqueue.node.migration.driver import Migration
from goqueue.node.migration.progress import Progress
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import SimLoop
from goqueue.testing.sim_node import SimNode


class SlowStep:
    """Takes over a topic as slowly as the test wants."""

    topic = "__former"

    def __init__(self) -> None:
        self.removed, self.written = asyncio.Event(), asyncio.Event()

    async def begin_anew(self) -> None:
        await self.removed.wait()

    async def write(self, progress: Progress) -> dict[int, Any]:
        progress.at(30, 100)
        await self.written.wait()
        return {}

    async def finish(self) -> None:
        """Nothing."""


async def at_once(work: Any) -> Any:
    return work()


async def nothing(*_: Any) -> None:
    """The metadata takes everything."""


def test_it_is_said_every_second_from_the_first_moment_to_the_last(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "goqueue.migration")
    clock = ManualClock()
    loop = SimLoop(clock, order=seeded_rng(1))
    loop.run_until_complete(slow_migration(clock, caplog))
    loop.close()


async def slow_migration(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    step = SlowStep()
    former = SimpleNamespace(name="__former", topic_id=None)
    image = SimpleNamespace(topic=lambda _name: former, feature_levels=dict)
    migration = Migration(
        [step],
        files=MemoryFiles(),
        metadata=cast("Any", SimpleNamespace(image=image, commit=nothing)),
        partitions=cast("Any", SimpleNamespace(led_with_data=lambda _topic: [])),
        offload=at_once,
        clock=clock,
    )
    running = asyncio.ensure_future(migration.run())
    await asyncio.sleep(0.999)
    assert caplog.messages == []
    await asyncio.sleep(0.002)
    assert caplog.messages == [
        "taking over __former: 0 of 0 records after 1 s; nothing is served until this has ended"
    ], "also while what an earlier attempt left is being removed"

    step.removed.set()
    await asyncio.sleep(2)
    assert [one.partition(";")[0] for one in caplog.messages[1:]] == [
        "taking over __former: 30 of 100 records after 2 s",
        "taking over __former: 30 of 100 records after 3 s",
    ]

    step.written.set()
    await running
    await asyncio.sleep(60)
    assert len(caplog.messages) == 3


@pytest.mark.parametrize("name", ["queues", "delays"])
def test_the_steps_tell_how_many_records_they_have_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(Progress, "at", lambda _self, done, total: told.append((done, total)))
    node = SimNode(1, Config())
    load(name, node.files)

    async def only_start(_services: Services) -> None:
        """Nothing else."""

    assert node.live(only_start)
    done = [one for one, _ in told]
    (total,) = {two for _, two in told}
    assert total > 10
    assert done == sorted(done)
    assert (done[0] < total, done[-1]) == (True, total)
