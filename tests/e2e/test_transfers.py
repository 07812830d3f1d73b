"""The transfer workload: many producers, aborts, a broker that is killed again and again; the sum never changes."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.transactional_clients import wait_for
from tests.e2e.transfer_load import TransferLoad
from tests.e2e.transfers import PARTITIONS, TOPICS, Outcome


def run(
    broker: BrokerProcess, seed: int, *, seconds: float, kills: int, at_least: Mapping[Outcome, int]
) -> TransferLoad:
    """Kills spread over so many seconds, and then on until each outcome was seen often enough to mean something."""
    with RawClient(broker.kafka) as raw:
        for number in range(TOPICS):
            raw.create_topic(f"accounts-{number}", PARTITIONS)
    workload = TransferLoad(broker, seed)
    workload.start()
    chance = random.Random(seed)
    for _ in range(kills):
        workload.stopping.wait(seconds / (kills + 1) * (0.5 + chance.random()))
        broker.kill()
        broker.start()
    done = workload.history.count(Outcome.COMMITTED)
    wait_for(lambda: workload.history.count(Outcome.COMMITTED) > done, True)
    wait_for(lambda: [one for one, times in at_least.items() if workload.history.count(one) < times], [])
    workload.stop()
    workload.judge()
    return workload


@pytest.mark.timeout(180)
def test_transfers_leave_the_sum_as_it_is_through_aborts_and_kill_9(start_broker: StartBroker) -> None:
    workload = run(start_broker(), 1, seconds=6, kills=2, at_least={Outcome.COMMITTED: 20, Outcome.ABORTED: 5})
    assert workload.found == []
    assert any(workload.last.values()), "nothing was read while it was written"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_transfers_leave_the_sum_as_it_is_for_long(start_broker: StartBroker, seed: int) -> None:
    started = time.monotonic()
    workload = run(start_broker(), seed, seconds=240, kills=40, at_least={Outcome.COMMITTED: 1000, Outcome.ABORTED: 5})
    assert workload.found == []
    assert time.monotonic() - started > 60
