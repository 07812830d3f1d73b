"""Whole nodes of which none loses power: an ack that was answered is remembered, durable or not.

Nodes are frozen, cut off, killed and elected. Clients ask whoever may lead, and wait long for answers.
"""

from __future__ import annotations

import logging
import os

import pytest
from tests.sim.whole_faults import POWERED
from tests.sim.whole_run import run_whole

SEEDS = int(os.environ.get("SEEDS", "6"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue")


@pytest.mark.parametrize("seed", range(max(SEEDS // 6, 1)))
def test_what_was_acknowledged_never_comes_again(seed: int) -> None:
    outcome = run_whole(seed, seconds=20, profile=POWERED)
    assert outcome.counts.get("answered acks", 0) > 5, "the run tried too little to prove anything"
