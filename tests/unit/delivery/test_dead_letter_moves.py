"""Moves to the dead-letter topic while leaders change: a batch that a former term appended ends no other batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.delivery.driver import QUEUE, Driver

from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.commands import BeginMove, EndMove, Move, Settle, SettleShare
from goqueue.delivery.values import Action


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
