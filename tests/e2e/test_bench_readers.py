"""Benchmarks of readers and writers run whole, in small: what nobody runs is broken when somebody needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        (["bench_clients"], ["read: poll, as it comes", "write: produce_batch of 10,000, times the first"]),
        pytest.param(
            ["bench_consume", "--only", "1000"],
            ["1000 B: GoQueue, Kafka wire", "1000 B: share of null broker"],
            # It fills two brokers first; `bench_clients` shows that the common parts work.
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["bench_cluster", "--only", "written"],
            ["written: GoQueue, produce, messages/s", "written: GoQueue, end to end at 500/s, p99"],
            # Three nodes, and Apache Kafka's three where it is installed.
            marks=pytest.mark.slow,
        ),
    ],
)
def test_it_measures_all_that_it_names(command: list[str], rows: list[str]) -> None:
    measure(command, rows, seconds_max=120)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("part", "row"),
    [
        ("partitions", "partitions: kill -9 of a broker, all of 60 take acks=all again after, GoQueue"),
        ("restarts", "restarts: GoQueue, 3 clean restarts, errors in the application"),
        ("steady", "steady: 0.1 minutes of full load, sessions lost"),
    ],
)
def test_every_part_of_the_cluster_runs_alone(part: str, row: str) -> None:
    measure(["bench_cluster", "--only", part], [row], seconds_max=380)


def measure(command: list[str], rows: list[str], *, seconds_max: float) -> None:
    name, *options = command
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bench.{name}", "--quick", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [row for row in rows if row not in done.stdout] == [], done.stdout
