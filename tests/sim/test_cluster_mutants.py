"""Mutants that the random runs find by themselves, within a budget of seeds: a test of the tests.

Every rule has a story of its own that fails without it (`test_cluster_fences`, `test_cluster_replication`,
`test_cluster_joining`, `test_cluster_copied_anew`, `test_cluster_tombstones`, `test_verification`). Here nobody helps:
each mutant is played with the seeds of the profile that suits it. Mutants of the controller, a wiped last member that
leads among them, are in `test_controller`, and a FIRE that is not awaited is in `test_delay_crashes`; random runs find
those as well. A story alone shows a verification that an end overtook: both come from the coordinator on one
connection, in order, so that only a coordinator that is replaced within these milliseconds makes it happen.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from typing import Any

import pytest
from tests.sim import test_cluster_fences as fences
from tests.sim import test_cluster_replication as stories
from tests.sim.test_cluster_replication import Mutant

from goqueue.errors import GoQueueError
from goqueue.testing.cluster.fault_profiles import BLACKOUTS, LATE_JOINERS, MIXED, SLOTS, TIMED, ZOMBIES, Profile
from goqueue.testing.cluster.run import run_cluster
from goqueue.testing.sim_loop import SimLoop

BUDGET = int(os.environ.get("BUDGET", "30"))

FOUND: list[tuple[Mutant, Profile]] = [
    (stories.truncation_by_high_watermark, MIXED),
    (stories.logs_not_matched, MIXED),
    (stories.acknowledged_before_synced, BLACKOUTS),
    (fences.epoch_not_begun, ZOMBIES),
    (fences.fencing_off, ZOMBIES),
    (fences.progress_before_reconciliation, ZOMBIES),
    (stories.no_session_of_the_follower_in_the_guard, TIMED),
    (stories.in_sync_replicas_without_union, LATE_JOINERS),
    (fences.data_before_slot, SLOTS),
]
# What a mutant raises that does not fit what it replaces: any seed would find that.
MISFITS = (TypeError, AttributeError, NameError)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue")


@pytest.fixture
def misfits(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    found: list[BaseException] = []
    note = SimLoop._note_unhandled

    def look(self: SimLoop, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        note(self, loop, context)
        found.extend(one for one in self.unhandled[-1:] if isinstance(one, MISFITS))

    monkeypatch.setattr(SimLoop, "_note_unhandled", look)
    return found


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("mutant", "profile"), FOUND, ids=lambda one: getattr(one, "__name__", ""))
def test_a_random_run_finds_it(
    mutant: Mutant, profile: Profile, misfits: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(BUDGET):
        with monkeypatch.context() as patch:
            mutant(patch)
            try:
                run_cluster(seed, profile=profile)
                continue
            except (AssertionError, GoQueueError) as problem:
                print(f"\n{mutant.__name__}: found by seed {seed}: {problem}")
        gc.collect()
        assert not misfits, "the mutant does not fit"
        # By the mutant, and not by the seed.
        run_cluster(seed, profile=profile)
        return
    pytest.fail(f"{mutant.__name__} was not found with {BUDGET} seeds")
