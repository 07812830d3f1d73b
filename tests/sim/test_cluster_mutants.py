"""Which mutants the random runs of the simulated cluster find by themselves, and with which seed first.

Every rule has a story of its own that shows what it is for (`test_cluster_fences`, `test_cluster_replication`,
`test_cluster_tombstones`). Here nobody helps: each mutant is played with `BUDGET` seeds of the profile that suits it.
The outcome is printed (`-s`). Those that are known to be found must be found; behind the others stand further rules.
"""

from __future__ import annotations

import logging
import os

import pytest
from tests.sim import test_cluster_fences as fences
from tests.sim import test_cluster_replication as stories
from tests.sim.test_cluster_replication import Mutant

from goqueue.testing.cluster.mischief import BLACKOUTS, ELECTIONS, MIXED, UNSURE, Profile
from goqueue.testing.cluster.run import run_cluster

BUDGET = int(os.environ.get("BUDGET", "12"))

FOUND: list[tuple[Mutant, Profile]] = [
    (stories.truncation_by_high_watermark, MIXED),
    (stories.logs_not_matched, MIXED),
    (stories.acknowledged_before_synced, BLACKOUTS),
]
HIDDEN: list[tuple[Mutant, Profile]] = [
    (stories.in_sync_replicas_without_union, UNSURE),
    (stories.no_session_of_the_follower_in_the_guard, UNSURE),
    (fences.fencing_off, ELECTIONS),
    (fences.progress_before_reconciliation, ELECTIONS),
    (fences.epoch_not_begun, ELECTIONS),
    (fences.data_before_slot, MIXED),
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def first_seed(profile: Profile) -> int | None:
    """The first seed of the budget whose run fails."""
    for seed in range(BUDGET):
        try:
            run_cluster(seed, profile=profile)
        except Exception:  # noqa: BLE001 - whatever shows it
            return seed
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "profile"), FOUND, ids=lambda one: getattr(one, "__name__", ""))
def test_a_random_run_finds_it(mutant: Mutant, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    seed = first_seed(profile)
    print(f"\n{mutant.__name__}: first found by seed {seed}")
    assert seed is not None, f"{mutant.__name__} was not found with {BUDGET} seeds"


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "profile"), HIDDEN, ids=lambda one: getattr(one, "__name__", ""))
def test_a_random_run_may_find_it(mutant: Mutant, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    print(f"\n{mutant.__name__}: first found by seed {first_seed(profile)} of {BUDGET}")


@pytest.mark.slow
@pytest.mark.parametrize("profile", [MIXED, ELECTIONS, UNSURE, BLACKOUTS], ids=["mixed", "elections", "unsure", "dark"])
def test_with_all_rules_in_place_no_seed_of_the_budget_fails(profile: Profile) -> None:
    assert first_seed(profile) is None
