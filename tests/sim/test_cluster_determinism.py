"""A seed gives the same run in every process: hashes of strings differ between processes, and must not matter."""

from __future__ import annotations

import os
import subprocess
import sys

_PLAY = """
import hashlib, logging
logging.disable(logging.CRITICAL)
from goqueue.testing.cluster import run
from goqueue.testing.cluster.workload import History
histories = []
class Kept(History):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        histories.append(self)
run.History = Kept
outcome = run.run_cluster(SEED, seconds=2)
told = [(tuple(one.place), one.values, one.end, one.acknowledged_s) for one in histories[0].sent]
print(hashlib.sha256(repr((told, outcome)).encode()).hexdigest(), outcome.acknowledged)
"""


def played(seed: int, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PLAY.replace("SEED", str(seed))],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


def test_the_same_seed_gives_the_same_history_in_two_processes() -> None:
    first, second = played(4, "1"), played(4, "2")
    assert first == second
    assert int(first.split()[1]) > 5, first
