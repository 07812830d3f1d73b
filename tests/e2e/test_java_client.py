"""Apache Kafka's own client, the one that all others are measured by, works unmodified."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest
from tests.e2e.process import BrokerProcess

# Where `make peers-install` puts them.
JARS = Path.home() / ".cache/goqueue-peers/kafka"
PROGRAM = Path(__file__).parent / "java/EverydayUse.java"

pytestmark = pytest.mark.slow


def test_the_java_client_does_all_that_programs_do_every_day(tmp_path: Path) -> None:
    skip_without_java()
    broker = BrokerProcess(tmp_path).start()
    try:
        command = ["java", "-cp", f"{JARS}/*", str(PROGRAM), broker.kafka]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    finally:
        broker.stop()

    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    committed = sorted(f"{number}-{i}" for number in (0, 2) for i in range(10))
    assert found == {
        "partitions": "3",
        "classic group": "1000",
        "cooperative group": "1000",
        "group by the new protocol": "1000",
        "share group": "1000",
        "committed only": f"[{', '.join(committed)}]",
        "groups": "[classic, committed, cooperative, new, shared]",
        "committed offsets": "1000",
        # Version 2 of transactions (KIP-890): the epoch rises with each, so that nothing late lands in the next one.
        "epochs of four transactions": "4",
        "topics left": "0",
    }


def test_the_java_client_meets_idle_partitions_ordered_requests_and_expired_locks(tmp_path: Path) -> None:
    skip_without_java()
    broker = BrokerProcess(tmp_path).start()
    try:
        command = ["java", "-cp", f"{JARS}/*", str(PROGRAM.with_name("EdgeCases.java")), broker.kafka]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    finally:
        broker.stop()

    assert done.returncode == 0, done.stderr
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == {
        "idle partitions": "[137@0, 3@0, 137@1, 199@0]",
        "records left after DeleteRecords": "3",
        "expired lock": "[InvalidRecordStateException], counts rise",
    }


def skip_without_java() -> None:
    if which("javac") is None:
        pytest.skip("needs a JDK of version 17: apt-get install openjdk-17-jdk-headless")
    if not list(JARS.glob("kafka-clients-*.jar")):
        pytest.skip("needs Kafka's jars: make peers-install")
