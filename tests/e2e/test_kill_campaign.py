"""kill -9 again and again under mixed load, and an account of every message in the end.

One broker on fixed ports serves, all at once: idempotent producers of five codecs, one with acks=1,
transactions, consume-transform-produce, queue groups over HTTP, share groups, delayed, recurring and
deduplicated messages and a stream group. It is killed at random moments and started again on the same
data. A failure names the seed, the messages and the kills around them.
"""

from __future__ import annotations

import os
import random

import pytest
from tests.e2e.campaign.run import Run
from tests.e2e.conftest import StartBroker


def campaign(start_broker: StartBroker, *, kills: int) -> Run:
    # The threads' timing differs in every run, so a new seed each time finds more; a failure prints it.
    seed = int(os.environ.get("CAMPAIGN_SEED") or random.randrange(1_000_000))
    # Small segments, so that kills hit rolls too; frequent checkpoints, so that they hit those.
    broker = start_broker(GOQUEUE_LOG_SEGMENT_BYTES=1 << 18, GOQUEUE_DURABILITY_CHECKPOINT_INTERVAL_MS=100)
    run = Run(broker, seed)
    try:
        problems = run.execute(lambda: run.kill(broker, kills))
    finally:
        print(run.figures())
    assert problems == [], f"seed {seed}, {kills} kills:\n" + "\n".join(problems)
    return run


@pytest.mark.timeout(300)
def test_three_kills_under_mixed_load_leave_every_message_accounted_for(start_broker: StartBroker) -> None:
    run = campaign(start_broker, kills=3)
    assert all(run.topics.values()), "a load did nothing"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_sixty_kills_under_mixed_load_leave_every_message_accounted_for(start_broker: StartBroker) -> None:
    run = campaign(start_broker, kills=60)
    assert all(run.topics.values()), "a load did nothing"
