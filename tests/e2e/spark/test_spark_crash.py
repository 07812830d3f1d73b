"""`make test-spark-crash`: kill -9 at every step of the sink, and nothing is lost or written twice.

The job is a process of its own. Python workers kill themselves at a named step (`steps.py`);
the driver and the broker are killed when a worker reaches one. Between the sink's commit and
Spark's own lies the step `committed`: there a plain sink writes its batch again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.spark.kafka_truth import truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

JOB = Path(__file__).with_name("crash_job.py")
STEPS = ("opened", "sending", "staged", "committing", "committed")
COUNT = 1400
RUN_SECONDS_MAX = 180


class Job:
    """The copying job in a process group of its own, so that no orphan outlives a test."""

    def __init__(self, broker, source: str, target: str, home: Path) -> None:
        self._arguments = [broker.kafka, source, target, str(home / "checkpoint"), str(home / "spark")]
        self._log = (home / "job.log").open("a")
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        self._log.close()

    def start(self, kill: str | None = None) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        if kill is not None:
            environment["GOQUEUE_SPARK_KILL"] = kill
        self._process = subprocess.Popen(
            [sys.executable, str(JOB), *self._arguments],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def wait(self) -> bool:
        """Whether the job says that all is copied."""
        assert self._process is not None
        out, _ = self._process.communicate(timeout=RUN_SECONDS_MAX)
        return "done" in out

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and every worker."""
        assert self._process is not None
        if self._process.stdout is not None:
            self._process.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.mark.parametrize("victim", ["worker", "driver", "broker"])
def test_killed_at_every_step_the_copy_is_whole_and_has_nothing_twice(start_broker, tmp_path, victim):
    broker = start_broker()
    with RawClient(broker.kafka) as raw:
        raw.create_topic("from", 2)
        raw.create_topic("to", 2)
    sent = [b"%d" % number for number in range(COUNT)]
    Confluent().produce(broker.kafka, "from", [Sent(one, one, partition=number % 2) for number, one in enumerate(sent)])
    job = Job(broker, "from", "to", tmp_path)
    crashes = 0
    for number, step in enumerate(STEPS):
        mark = tmp_path / f"killed-{step}"
        job.start(f"{step}:{number + 1}:{mark}")
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while not mark.exists() and not job.ended:
            assert time.monotonic() < deadline, (tmp_path / "job.log").read_text()[-3000:]
            time.sleep(0.005)
        assert mark.exists(), (tmp_path / "job.log").read_text()[-3000:]
        crashes += 1
        if victim == "broker":
            broker.kill()
            crashes += 1
            broker.start()
        if victim == "driver":
            job.kill()
            crashes += 1
        elif not job.ended:
            # A worker's death ends the query or is passed over by a second attempt; either way the job ends.
            try:
                job.wait()
            finally:
                job.kill()
    job.start()
    assert job.wait(), (tmp_path / "job.log").read_text()[-3000:]
    job.kill()
    job.close()

    found = sorted(row[4] for row in truth(broker.kafka, "to", 2))
    print(f"{victim}: {crashes} crashes, {len(set(sent) - set(found))} lost, {len(found) - len(set(found))} twice")
    assert crashes >= len(STEPS)
    assert found == sorted(sent)
