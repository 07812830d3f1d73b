"""`make test-spark-cluster`: a master and two workers from the pip package read a topic and write one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.spark.kafka_truth import truth

pyspark = pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("cluster_job.py")
SECONDS_MAX = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(home: Path) -> Iterator[str]:
    """A standalone cluster on this machine; its processes end with the test."""
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    log = (home / "cluster.log").open("w")

    def launch(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(launcher), *arguments], stdout=log, stderr=log, env=environment)

    kind = "org.apache.spark.deploy"
    started = [launch(f"{kind}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
    try:
        _wait_for(home / "cluster.log", "I have been elected leader", 1)
        for number in range(2):
            work = str(home / f"work{number}")
            options = ["--cores", "1", "--memory", "700m", "--host", "127.0.0.1", "--webui-port", "0", "-d", work]
            started.append(launch(f"{kind}.worker.Worker", *options, master))
        _wait_for(home / "cluster.log", "Successfully registered with master", 2)
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
        log.close()


def _wait_for(log: Path, line: str, times: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while len(re.findall(line, log.read_text())) < times:
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)


def test_a_standalone_cluster_reads_a_topic_and_writes_one_exactly_once(start_broker, tmp_path):
    broker = start_broker()
    with RawClient(broker.kafka) as raw:
        raw.create_topic("from", 2)
        raw.create_topic("to", 3)
    sent = [b"%d" % number for number in range(5000)]
    Confluent().produce(broker.kafka, "from", [Sent(one, one, partition=number % 2) for number, one in enumerate(sent)])
    with cluster(tmp_path) as master:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
        job = subprocess.run(
            [sys.executable, str(JOB), master, broker.kafka, "from", "to"],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX * 2,
            env=environment,
            check=False,
        )

    assert job.returncode == 0, job.stderr[-3000:]
    assert "read 5000 in 4 tasks" in job.stdout
    assert "written by 2 executors" in job.stdout
    assert sorted(row[4] for row in truth(broker.kafka, "to", 3)) == sorted(sent)
