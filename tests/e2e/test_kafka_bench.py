"""The benchmark itself works: a little of everything, against both brokers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_quick_run_measures_everything(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench.bench_kafka", "--quick", "--directory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    for what in ("produce 100 B", "fetch 1000 B", "acks=all", "p99", "rebalance", "idle connections"):
        assert what in done.stdout
