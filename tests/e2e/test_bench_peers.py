"""The comparison with other brokers cannot rot: a little of everything, and a report that adds up."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bench.peers import common
from tests.bench.peers.findings import Finding

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]


def command(out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench.peers", "--smoke", "--out", str(out), *arguments]


def found_in(out: Path) -> Finding:
    return Finding.from_json((out / "peers.json").read_text())


def run_harness(out: Path, *arguments: str) -> tuple[str, str, Finding]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command(out, *arguments), stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as harness:
        try:
            printed, said = harness.communicate(timeout=280)
        except BaseException:
            # Not killed: it has servers to end.
            harness.terminate()
            raise
    assert harness.returncode == 0, printed + said
    return printed, said, found_in(out)


def test_a_smoke_run_measures_us_beside_another_and_draws_it(tmp_path):
    printed, _, found = run_harness(tmp_path, "--peers", "goqueue", "null", "--only", "100B", "latency-200")

    assert {one.peer for one in found.samples()} == {"GoQueue, Kafka wire", "null broker"}
    assert all(one.figures["consume_per_s"] > 500 for one in found.samples() if one.workload == "100 B")
    assert "produce 100 B, share of the null broker" in printed
    assert (tmp_path / "peers-throughput.svg").stat().st_size > 1000
    assert (tmp_path / "peers-latency.svg").stat().st_size > 1000


@pytest.mark.slow
def test_the_smoke_run_measures_us_and_whoever_starts_quickly(tmp_path):
    printed, _, found = run_harness(
        tmp_path, "--peers", "goqueue", "goqueue-http", "null", "null-storing", "redis", "--only", "100B", "latency-200"
    )

    produced = {one.peer: one.figures["produce_per_s"] for one in found.samples() if one.workload == "100 B"}
    assert {"GoQueue, Kafka wire", "GoQueue, HTTP", "null broker", "null broker that stores"} <= produced.keys()
    assert all(rate > 0 for rate in produced.values())
    consumed = {one.peer: one.figures["consume_per_s"] for one in found.samples() if one.workload == "100 B"}
    # A client that waits for messages that nobody sent would be at a hundred or so.
    assert min(consumed.values()) > 500
    assert "produce 100 B, share of the null broker" in printed


def test_a_peer_that_is_not_installed_is_left_out_with_a_word_on_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    printed, said, found = run_harness(tmp_path, "--peers", "goqueue", "kafka", "--only", "start-up")

    assert "left out: Apache Kafka needs" in said
    assert "Not taken part: Apache Kafka (needs" in printed
    assert [one.peer for one in found.samples()] == ["GoQueue, Kafka wire"]


def test_a_run_that_was_ended_keeps_what_it_measured_and_is_gone_on_with(tmp_path):
    arguments = ["--peers", "goqueue", "--only", "start-up", "latency-200"]
    with subprocess.Popen(command(tmp_path, *arguments), cwd=ROOT, stderr=subprocess.PIPE, text=True) as interrupted:
        deadline = time.monotonic() + 60
        while not (tmp_path / "peers.json").exists() or not found_in(tmp_path).measured:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        interrupted.terminate()
        said = interrupted.communicate(timeout=60)[1]
    before = found_in(tmp_path)

    _, _, after = run_harness(tmp_path, *arguments, "--resume")

    assert interrupted.returncode == 143
    assert "1 of 2 workloads are in" in said
    assert "**Not run yet:** latency-200." not in (tmp_path / "peers.md").read_text()
    assert before.not_run() == ["latency-200"]
    assert after.not_run() == []
    assert after.measured[0] == before.measured[0]


def test_logs_take_turns_and_one_that_does_not_fit_the_disk_is_refused_before_anything_starts(tmp_path):
    arguments = ["--peers", "goqueue", "--only", "log"]

    printed, _, found = run_harness(tmp_path, *arguments, "--log-gib", "0.05", "0.02")
    refused = subprocess.run(
        command(tmp_path / "none", *arguments, "--log-gib", "1000000"),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )

    assert found.workloads() == ["0.02 GiB in the log", "0.05 GiB in the log"]
    assert "| 0.05 GiB in the log against 0.02 GiB in the log: CPU per message |" in printed
    assert refused.returncode == 2
    assert "logs of 1e+06 GiB need 1020002.0 GiB" in refused.stderr
    assert "give smaller ones to --log-gib" in refused.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_smoke_run_measures_everything_that_is_installed(tmp_path):
    _, _, found = run_harness(tmp_path)

    assert found.not_run() == []
    workloads = {"start-up", "100 B", "latency at 200/s", "durable", "fan-out to 5 groups", "10 partitions"}
    assert workloads <= set(found.workloads())


def test_the_command_line_runs_the_same_harness(tmp_path):
    program = [str(Path(sys.executable).parent / "goqueue"), "bench", "peers", "--help"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)

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
