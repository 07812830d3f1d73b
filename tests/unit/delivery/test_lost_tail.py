"""A log that lost its end in a crash: the queue forgets those messages and gives out what got their offsets."""

from __future__ import annotations

import pytest
from tests.unit.delivery.driver import QUEUE, Driver

from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.commands import (
    BeginMove,
    CutQueue,
    EndPromises,
    Move,
    Promise,
    ResetQueue,
    Settle,
    SettleShare,
)
from goqueue.delivery.values import Action


@pytest.fixture
def driver() -> Driver:
    """Ten messages, of which the first six are received, in an epoch that nobody noted."""
    driver = Driver(DeliveryPolicy(dead_letters=True))
    for _ in range(10):
        driver.publish()
    assert driver.receive_offsets(6) == [0, 1, 2, 3, 4, 5]
    return driver


def settle(driver: Driver, action: Action, *offsets: int) -> None:
    lease = driver.queue.outstanding[offsets[0]].lease_id
    driver.run(Settle([SettleShare(lease, 1, action, list(offsets))]))


def lose(driver: Driver, end: int, *, known: int = -1, epoch: int = 1) -> bool:
    """A crash took everything from `end` on, and the broker starts again."""
    driver.restart()
    del driver.lanes[end:], driver.keys[end:]
    answer: bool = driver.run(CutQueue(QUEUE, known, end, epoch))
    return answer


@pytest.mark.parametrize("action", [Action.ACK, Action.NACK, Action.REJECT, Action.EXTEND])
def test_what_has_the_offset_of_a_lost_message_is_given_out_whatever_became_of_that_one(driver, action):
    settle(driver, action, 2, 3, 4, 5)
    assert lose(driver, 4)
    assert sorted(driver.queue.outstanding) == ([0, 1, 2, 3] if action is not Action.ACK else [0, 1])
    new = [driver.publish() for _ in range(3)]
    assert new == [4, 5, 6]
    driver.restart()
    assert driver.receive_offsets(10) == new


def test_a_log_that_lost_nothing_of_the_queue_changes_nothing(driver):
    before = len(driver.journal.entries)
    assert lose(driver, 10)
    assert len(driver.journal.entries) == before
    assert sorted(driver.queue.outstanding) == [0, 1, 2, 3, 4, 5]


def test_an_end_for_another_epoch_than_the_queue_knows_is_refused(driver):
    driver.run(Settle([SettleShare(driver.queue.outstanding[0].lease_id, 1, Action.ACK, list(range(6)))]))
    driver.run(ResetQueue(QUEUE, 8, epoch=2))
    assert not lose(driver, 4, known=1, epoch=3)
    assert driver.queue.cursors == [8] * 5
    assert lose(driver, 4, known=2, epoch=3)
    assert (driver.queue.cursors, driver.queue.epoch) == ([4] * 5, 3)


def test_dead_letters_that_are_left_are_moved_under_another_producer(driver):
    settle(driver, Action.REJECT, 2, 5)
    assert isinstance(driver.run(BeginMove(QUEUE, producer_id=77)), Move)
    assert lose(driver, 4)
    move = driver.run(BeginMove(QUEUE, producer_id=78))
    assert (move.producer_id, move.sequence, [one.offset for one in move.dead]) == (78, 0, [2])


def test_a_transaction_settles_what_is_left_of_its_promise_and_nothing_in_place_of_the_rest(driver):
    lease = driver.queue.outstanding[0].lease_id
    driver.run(Promise(9, [SettleShare(lease, 1, Action.ACK, [3, 4, 5])], 0, 0))
    assert lose(driver, 4)
    for _ in range(2):
        driver.publish()
    assert driver.receive_offsets(10) == [4, 5]
    driver.restart(compacted=True)
    driver.run(EndPromises(9, commit=True, producer_epoch=0, coordinator_epoch=0))
    assert sorted(driver.queue.outstanding) == [0, 1, 2, 4, 5]
