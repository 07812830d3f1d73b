"""The comparison with other brokers cannot rot: a little of everything, and a report that adds up (L50)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.peers import common
from tests.bench.peers.report import Finding, bars, markdown
from tests.bench.peers.turns import Sample

ROOT = Path(__file__).parents[2]


def run_harness(out: Path, *arguments: str) -> tuple[str, str, dict]:
    command = [sys.executable, "-m", "tests.bench.peers", "--smoke", "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr, json.loads((out / "peers.json").read_text())


def test_the_smoke_run_measures_us_and_whoever_starts_quickly(tmp_path):
    printed, _, found = run_harness(
        tmp_path, "--peers", "goqueue", "goqueue-http", "null", "redis", "--only", "100B", "latency-200"
    )

    produced = {one["peer"]: one["figures"]["produce_per_s"] for one in found["samples"] if one["workload"] == "100 B"}
    assert {"GoQueue, Kafka wire", "GoQueue, HTTP", "null broker"} <= produced.keys()
    assert all(rate > 0 for rate in produced.values())
    consumed = {one["peer"]: one["figures"]["consume_per_s"] for one in found["samples"] if one["workload"] == "100 B"}
    # A client that waits for messages that nobody sent would be at a hundred or so.
    assert min(consumed.values()) > 500
    assert "produce 100 B, share of the null broker" in printed
    assert (tmp_path / "peers-throughput.svg").stat().st_size > 1000
    assert (tmp_path / "peers-latency.svg").stat().st_size > 1000


def test_a_peer_that_is_not_installed_is_left_out_with_a_word_on_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    printed, said, found = run_harness(tmp_path, "--peers", "goqueue", "kafka", "--only", "start-up")

    assert "left out: Apache Kafka needs" in said
    assert "Not taken part: Apache Kafka (needs" in printed
    assert [one["peer"] for one in found["samples"]] == ["GoQueue, Kafka wire"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_smoke_run_measures_everything_that_is_installed(tmp_path):
    _, _, found = run_harness(tmp_path)

    workloads = {one["workload"] for one in found["samples"]}
    assert {"start-up", "100 B", "latency at 200/s", "durable", "fan-out to 5 groups", "10 partitions"} <= workloads


def test_the_command_line_runs_the_same_harness(tmp_path):
    command = [str(Path(sys.executable).parent / "goqueue"), "bench", "peers", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert "--publish" in done.stdout


def test_a_checksum_tells_lost_doubled_and_damaged_messages():
    values = common.payloads(100)
    sent = common.expected_checksum(100, 2000)

    assert common.checksum(values + values[::-1]) == sent
    assert common.checksum(values + values[1:]) != sent
    assert common.checksum([*values, *values[1:], values[1]]) != sent
    assert common.checksum([*values, *values[1:], values[0][:-1] + b"\x00"]) != sent


def test_late_messages_are_made_up_for_and_keep_their_due_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    sent: list[list[float]] = []

    def send(dues: list[float]) -> None:
        sent.append(dues)
        if len(sent) == 2:
            now[0] += 0.5

    def idle(seconds: float) -> None:
        now[0] += seconds + 1e-9

    common.at_rate(10, 1, send, idle)

    dues = [due for batch in sent for due in batch]
    assert dues == pytest.approx([number / 10 for number in range(10)])
    assert len(sent[2]) == 5


def test_the_report_says_first_what_was_not_met():
    samples = [
        Sample("100 B", "GoQueue, Kafka wire", number, {"produce_per_s": 80.0 + number}) for number in range(3)
    ] + [Sample("100 B", "Apache Kafka", number, {"produce_per_s": 100.0 + number}) for number in range(3)]
    found = Finding({"python": "3"}, "command", "quick", [], {"RabbitMQ": "needs it"}, samples)

    text = markdown(found)

    assert [bar.met for bar in bars(found)] == [False]
    assert text.splitlines()[2] == "**Not met:** produce 100 B, times Apache Kafka: 0.80 (bar ≥ 1)."
    assert "Not taken part: RabbitMQ (needs it)." in text
    assert "| Apache Kafka | 101 |" in text
