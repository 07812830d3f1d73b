"""Mutants that the random runs of the simulated cluster find by themselves, within a budget of seeds.

Every rule has a story of its own that fails without it (`test_cluster_fences`, `test_cluster_replication`,
`test_cluster_tombstones`). Here nobody helps: each mutant is played with `BUDGET` seeds of the profile that suits it.
The mutants that are not listed break a rule behind which a second one stands, so that a random run needs luck to show
them; their stories are the proof.
"""

from __future__ import annotations

import logging
import os

import pytest
from tests.sim import test_cluster_replication as stories
from tests.sim.test_cluster_replication import Mutant

from goqueue.testing.cluster.mischief import BLACKOUTS, MIXED, Profile
from goqueue.testing.cluster.run import run_cluster

BUDGET = int(os.environ.get("BUDGET", "12"))

FOUND: list[tuple[Mutant, Profile]] = [
    (stories.truncation_by_high_watermark, MIXED),
    (stories.logs_not_matched, MIXED),
    (stories.acknowledged_before_synced, BLACKOUTS),
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
