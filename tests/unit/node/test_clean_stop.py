"""Leader epochs at a start: raised unless everything, and not only the metadata, was closed in order.

Before, a stop counted as clean when the metadata log was closed. A partition whose last records could
not be synced then lost them without a new epoch, and other records got their offsets: readers that
keep their own positions went on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config
from goqueue.errors import ConfigError
from goqueue.metadata.directory import CLEAN_STOP
from goqueue.node.assemble import assemble
from goqueue.node.listeners.listening import CannotListen
from goqueue.node.node import Node
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload, simulated


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def node_on(files: MemoryFiles, clock: ManualClock, seed: int, node_id: int = 1) -> Node:
    config = Config(broker=BrokerConfig(node_id=node_id))
    return assemble(config, files=files, clock=clock, rng=seeded_rng(seed), offload=InlineOffload())


async def epoch_after_start(files: MemoryFiles, clock: ManualClock, seed: int) -> int:
    node = node_on(files, clock, seed)
    services = (await node.start()).services
    (assignment,) = services.topics.assignments(services.topics.get("orders"))
    await node.stop()
    return assignment.leader_epoch


async def written(files: MemoryFiles, clock: ManualClock) -> Node:
    node = node_on(files, clock, 1)
    services = (await node.start()).services
    await services.topics.create(NewTopic("orders", 1))
    await services.publish.publish_records("orders", [NewRecord(None, b"a")], acks=Acks.LEADER, partition=0)
    return node


@simulated
async def test_a_clean_stop_keeps_the_epoch_and_a_crash_raises_it(clock: ManualClock) -> None:
    files = MemoryFiles()
    await (await written(files, clock)).stop()
    assert await epoch_after_start(files, clock, 2) == 0
    node = node_on(files, clock, 3)
    await node.start()
    assert not files.exists(CLEAN_STOP)
    files = files.crash(Survival.EVERYTHING)
    assert await epoch_after_start(files, clock, 4) == 1
    assert await epoch_after_start(files, clock, 5) == 1


@simulated
async def test_a_stop_in_which_a_partition_could_not_be_synced_raises_the_epoch(clock: ManualClock) -> None:
    files = MemoryFiles()
    node = await written(files, clock)
    files.faults.fail("sync", "logs/orders/0/*.log")
    await node.stop()
    assert not files.exists(CLEAN_STOP)
    assert await epoch_after_start(files, clock, 2) == 1


@simulated
async def test_a_copy_of_logs_and_metadata_taken_while_the_node_ran_is_one_after_a_crash(clock: ManualClock) -> None:
    files = MemoryFiles()
    await (await written(files, clock)).stop()
    # From here on nothing is written to the metadata log: it looks as the clean stop left it, but for its checkpoint.
    node = node_on(files, clock, 2)
    await node.start()
    copy = MemoryFiles()
    for path, content in files.tree().items():
        if path.startswith(("metadata/", "logs/")):
            copy.make_dirs(path.rpartition("/")[0])
            copy.replace(path, content)
    await node.stop()
    assert await epoch_after_start(copy, clock, 3) == 1


async def refused_start(files: MemoryFiles, clock: ManualClock, seed: int) -> None:
    """A start on data of another node: refused as soon as the metadata is read."""
    with pytest.raises(ConfigError, match=r"broker\.node_id is 2"):
        await node_on(files, clock, seed, node_id=2).start()


async def late_refused_start(files: MemoryFiles, clock: ManualClock, seed: int) -> None:
    """A start that fails at the very end, when another process has taken the address."""

    async def cannot_listen(*_: object) -> None:
        raise CannotListen("cannot listen on 127.0.0.1:9092")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("goqueue.node.assemble.serve", cannot_listen)
        with pytest.raises(CannotListen):
            await node_on(files, clock, seed).start()


FAILING_STARTS = [refused_start, late_refused_start]


@simulated
@pytest.mark.parametrize("failing_start", FAILING_STARTS)
async def test_a_start_that_fails_after_a_clean_stop_does_not_raise_the_epoch(
    clock: ManualClock, failing_start: Callable[[MemoryFiles, ManualClock, int], Awaitable[None]]
) -> None:
    files = MemoryFiles()
    await (await written(files, clock)).stop()
    for seed in (2, 3):
        await failing_start(files, clock, seed)
    assert await epoch_after_start(files, clock, 4) == 0


@simulated
@pytest.mark.parametrize("failing_start", FAILING_STARTS)
async def test_a_start_that_fails_after_a_crash_leaves_the_epoch_to_be_raised_once(
    clock: ManualClock, failing_start: Callable[[MemoryFiles, ManualClock, int], Awaitable[None]]
) -> None:
    files = MemoryFiles()
    await written(files, clock)
    files = files.crash(Survival.EVERYTHING)
    for seed in (2, 3):
        await failing_start(files, clock, seed)
    assert await epoch_after_start(files, clock, 4) == 1
    assert await epoch_after_start(files, clock, 5) == 1


@simulated
async def test_epochs_that_could_not_be_raised_on_a_full_disk_are_raised_by_the_next_start(clock: ManualClock) -> None:
    files = MemoryFiles()
    await written(files, clock)
    files = files.crash(Survival.EVERYTHING)
    files.faults.fail("append", "metadata/*.log")
    assert await epoch_after_start(files, clock, 2) == 0
    assert await epoch_after_start(files, clock, 3) == 1
