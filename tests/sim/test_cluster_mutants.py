"""Mutants that the random runs find by themselves, within a budget of seeds: a test of the tests.

Every rule has a story of its own that fails without it (`test_cluster_fences`, `test_cluster_replication`,
`test_cluster_joining`, `test_cluster_copied_anew`, `test_cluster_tombstones`, `test_verification`). Here nobody helps:
each mutant is played with the seeds of the profile that suits it. Mutants of the controller are in `test_controller`.
Others need more luck, and are shown by stories alone: `in_sync_replicas_without_union` (not found with 20 seeds of
`JOINERS` and 12 of `TIMED`), `data_before_slot` (25 of `SLOTS`, 12 of `TIMED`), and a verification that an end
overtook.
"""

from __future__ import annotations

import logging
import os

import pytest
from tests.sim import test_cluster_fences as fences
from tests.sim import test_cluster_replication as stories
from tests.sim.test_cluster_replication import Mutant

from goqueue.testing.cluster.mischief import BLACKOUTS, MIXED, TIMED, ZOMBIES, Profile
from goqueue.testing.cluster.run import run_cluster

BUDGET = int(os.environ.get("BUDGET", "30"))

FOUND: list[tuple[Mutant, Profile]] = [
    (stories.truncation_by_high_watermark, MIXED),
    (stories.logs_not_matched, MIXED),
    (stories.acknowledged_before_synced, BLACKOUTS),
    (fences.epoch_not_begun, ZOMBIES),
    (fences.fencing_off, ZOMBIES),
    (fences.progress_before_reconciliation, ZOMBIES),
    (stories.no_session_of_the_follower_in_the_guard, TIMED),
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("mutant", "profile"), FOUND, ids=lambda one: getattr(one, "__name__", ""))
def test_a_random_run_finds_it(mutant: Mutant, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(BUDGET):
        with monkeypatch.context() as patch:
            mutant(patch)
            try:
                run_cluster(seed, profile=profile)
                continue
            except Exception as problem:  # noqa: BLE001 - whatever shows it
                print(f"\n{mutant.__name__}: found by seed {seed}: {problem}")
        # By the mutant, and not by the seed.
        run_cluster(seed, profile=profile)
        return
    pytest.fail(f"{mutant.__name__} was not found with {BUDGET} seeds")
