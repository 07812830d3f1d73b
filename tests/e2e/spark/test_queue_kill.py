"""A queue as a source of a table, killed at every step: each message is written once, and none is left in the queue."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.test_queue_source import lag, send

from goqueue.pipeline.steps import VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

JOB = Path(__file__).with_name("queue_job.py")
COUNT, SECONDS_MAX, RUN_SECONDS_MAX = 900, 900, 240
# The planner takes and acknowledges, the driver writes. Each dies once at each of its steps.
STEPS = {"queue-done": 1, "lake-files": 2, "lake-written": 3, "queue-acknowledged": 5, "queue-taken": 7}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    with RawClient(process.kafka) as raw:
        raw.create_topic("work", 2)
    yield process
    process.kill()


def test_every_message_is_written_once_although_planner_and_driver_die_at_every_step(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    send(broker, "work", 0, COUNT)
    orders = ",".join(f"kill:{step}:{number}:{tmp_path}/{step}" for step, number in STEPS.items())

    # What was taken and not begun comes back when its lease ends: until then a run finds nothing to do.
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        _run(broker, tmp_path, orders)
        if all((tmp_path / step).exists() for step in STEPS) and lag(broker, "jobs") == 0:
            break

    assert [step for step in STEPS if not (tmp_path / step).exists()] == []
    assert lag(broker, "jobs") == 0
    found = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()["job"].to_pylist()
    assert sorted(found) == sorted(f"job {number}" for number in range(COUNT))


def _run(broker: BrokerProcess, home: Path, orders: str) -> None:
    with (home / "job.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, str(JOB), broker.kafka, f"http://{broker.http}", "work", str(home)],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), VARIABLE: orders},
            start_new_session=True,
        )
    try:
        code = process.wait(RUN_SECONDS_MAX)
        assert code in (0, -signal.SIGKILL), (home / "job.log").read_text()[-3000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
