"""Moves to the dead-letter topic while leaders change: a batch that a former term appended ends no other batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.delivery.driver import QUEUE, Driver

from goqueue.broker.topics import NewTopic
from goqueue.config import Config
from goqueue.delivery.dead_letters.dead_letter_moves import DeadLetters
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.commands import BeginMove, EndMove, Move, Settle, SettleShare
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.node.assemble import assemble
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

PLACE = TopicPartition("work", 0)


@pytest.fixture
def driver() -> Driver:
    """Six messages that are received."""
    driver = Driver(DeliveryPolicy(dead_letters=True))
    for _ in range(6):
        driver.publish()
    driver.receive_offsets(6)
    return driver


def reject(driver: Driver, *offsets: int) -> None:
    lease = driver.queue.outstanding[offsets[0]].lease_id
    driver.run(Settle([SettleShare(lease, 1, Action.REJECT, list(offsets))]))


def begin(driver: Driver, producer_id: int = -1) -> Move:
    move = driver.run(BeginMove(QUEUE, producer_id))
    assert isinstance(move, Move)
    return move


def dead(move: Move) -> Sequence[int]:
    return [one.offset for one in move.dead]


def test_the_late_end_of_a_batch_does_not_settle_the_batch_after_it(driver: Driver) -> None:
    """The leader of before appended it, lost the lead, and has it again; another node went on meanwhile."""
    reject(driver, 0, 1)
    first = begin(driver, 77)
    driver.run(EndMove(QUEUE, first.id, len(first.dead)))
    reject(driver, 2, 3)
    second = begin(driver)
    driver.run(EndMove(QUEUE, first.id, len(first.dead)))
    assert begin(driver) == second, "it is not in the dead-letter topic yet"
    assert dead(second) == [2, 3]


def test_the_refused_repeat_of_a_batch_does_not_begin_the_batch_after_it_anew(driver: Driver) -> None:
    """Under another producer the dead-letter topic would not recognise what it has of that one."""
    reject(driver, 0, 1)
    first = begin(driver, 77)
    driver.run(EndMove(QUEUE, first.id, len(first.dead)))
    reject(driver, 2, 3)
    second = begin(driver)
    assert driver.run(BeginMove(QUEUE, 78, renews=True, of=first.id)) is None
    assert driver.run(BeginMove(QUEUE, limit=1, of=first.id)) is None
    assert begin(driver) == second
    renewed = driver.run(BeginMove(QUEUE, 78, renews=True, of=second.id))
    assert (renewed.producer_id, renewed.sequence, dead(renewed)) == (78, 0, [2, 3])


async def test_a_message_that_dies_as_the_last_batch_has_just_been_moved_is_moved_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    node = assemble(Config(), files=MemoryFiles(), clock=clock, rng=seeded_rng(1), offload=InlineOffload())
    services = (await node.start()).services
    await services.topics.create(NewTopic("work", partitions=1))
    records = [NewRecord(None, b"%d" % number) for number in range(2)]
    await services.publish.publish_records("work", records, acks=Acks.ALL, partition=0)
    first, second = await services.delivery.receive(Receive("g", "c", [PLACE], 2))
    submit, late = DeadLetters._submit, [second.receipt]

    async def and_then_another_dies(letters: DeadLetters, queue_id: Any, command: object) -> object:
        answer = await submit(letters, queue_id, command)
        if answer is None and isinstance(command, BeginMove) and late:
            await services.delivery.settle([Settlement(late.pop(), Action.REJECT)])
        return answer

    monkeypatch.setattr(DeadLetters, "_submit", and_then_another_dies)
    await services.delivery.settle([Settlement(first.receipt, Action.REJECT)])
    for _ in range(1000):
        await asyncio.sleep(0)
    (queue,) = [queue for topic, queue in services.delivery.queues() if topic == "work"]
    assert not late
    assert not queue.dying
    await node.stop()
