"""`make test-spark-crash`: kill -9 at every step of the sink, and nothing is lost or written twice.

The job is a process of its own. The Python process that reaches a named step (`steps.py`) kills
itself there, or waits while the driver or the broker is killed. Between the sink's commit and
Spark's own lies the step `committed`: there a plain sink writes its batch again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.kafka_truth import truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.steps import VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOB = Path(__file__).with_name("crash_job.py")
STEPS = ("opened", "sending", "staged", "committing", "committed")
# Thirteen micro-batches: the job takes 200 offsets at a time.
COUNT = 2600
SENT = [b"%d" % number for number in range(COUNT)]
RUN_SECONDS_MAX = 180


class Job:
    """The copying job in a process group of its own, so that no orphan outlives a test."""

    def __init__(self, broker: BrokerProcess, home: Path) -> None:
        self._arguments = [broker.kafka, "from", "to", str(home / "checkpoint"), str(home / "spark")]
        self._log = home / "job.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self, *orders: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), VARIABLE: ",".join(orders)}
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(JOB), *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, mark: Path) -> None:
        """Until a step was reached."""
        assert self._process is not None
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while not mark.exists():
            assert self._process.poll() is None, f"the job ended before {mark.name}: {self.told}"
            assert time.monotonic() < deadline, f"the job did not come to {mark.name}: {self.told}"
            time.sleep(0.005)

    def restarts(self) -> int:
        """How often its query failed before the job said that all is copied."""
        assert self._process is not None
        out, _ = self._process.communicate(timeout=RUN_SECONDS_MAX)
        assert "done" in out, self.told
        return out.count("again")

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and every worker."""
        if self._process is None:
            return
        if self._process.stdout is not None:
            self._process.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def told(self) -> str:
        return self._log.read_text()[-3000:]


@pytest.fixture
def broker(start_broker) -> BrokerProcess:
    """A broker with a filled topic to copy from, and an empty one to copy to."""
    process = start_broker()
    with RawClient(process.kafka) as raw:
        raw.create_topic("from", 2)
        raw.create_topic("to", 2)
    Confluent().produce(
        process.kafka, "from", [Sent(one, one, partition=number % 2) for number, one in enumerate(SENT)]
    )
    return process


@pytest.fixture
def job(broker, tmp_path) -> Iterator[Job]:
    copying = Job(broker, tmp_path)
    yield copying
    copying.kill()


def marks(home: Path, steps: Sequence[str]) -> list[tuple[str, int, Path]]:
    """Each step with the micro-batch in which it is met, and the file that tells so."""
    return [(step, batch, home / f"{step}-{batch}") for batch, step in enumerate(steps, 1)]


def nothing_is_lost_or_twice(broker: BrokerProcess, victim: str, crashes: int) -> None:
    found = sorted(row[4] for row in truth(broker.kafka, "to", 2))
    lost, twice = len(set(SENT) - set(found)), len(found) - len(set(found))
    print(f"\n{victim} killed: {crashes} crashes, {lost} lost, {twice} twice, of {len(SENT)}")
    assert found == sorted(SENT)


def test_a_worker_that_dies_at_any_step_costs_and_doubles_nothing(broker, job, tmp_path):
    deaths = marks(tmp_path, STEPS * 2)
    job.start(*(f"kill:{step}:{batch}:{mark}" for step, batch, mark in deaths))
    assert job.restarts() == len(deaths)
    assert all(mark.exists() for _, _, mark in deaths)
    nothing_is_lost_or_twice(broker, "Python worker", len(deaths))


def test_a_broker_that_dies_at_any_step_does_not_even_end_the_query(broker, job, tmp_path):
    deaths = marks(tmp_path, STEPS * 2)
    job.start(*(f"hold:{step}:{batch}:{mark}" for step, batch, mark in deaths))
    for _, _, mark in deaths:
        job.wait_for(mark)
        broker.kill()
        broker.start()
        Path(f"{mark}.go").touch()
    assert job.restarts() == 0
    nothing_is_lost_or_twice(broker, "broker", len(deaths))


@pytest.mark.parametrize("steps", [STEPS[:3], STEPS[3:]], ids=["while writing", "while committing"])
def test_a_driver_that_dies_at_any_step_costs_and_doubles_nothing(broker, job, tmp_path, steps):
    for step, batch, mark in marks(tmp_path, steps):
        job.start(f"hold:{step}:{batch}:{mark}")
        job.wait_for(mark)
        job.kill()
    job.start()
    assert job.restarts() == 0
    nothing_is_lost_or_twice(broker, "driver", len(steps))


@pytest.mark.parametrize("steps", [STEPS[:3], STEPS[3:]], ids=["while writing", "while committing"])
def test_driver_and_broker_may_die_together_at_any_step(broker, job, tmp_path, steps):
    for step, batch, mark in marks(tmp_path, steps):
        job.start(f"hold:{step}:{batch}:{mark}")
        job.wait_for(mark)
        broker.kill()
        job.kill()
        broker.start()
    job.start()
    assert job.restarts() == 0
    nothing_is_lost_or_twice(broker, "driver and broker", 2 * len(steps))
