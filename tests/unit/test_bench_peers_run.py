"""How a run of the comparison goes on: turns, failures, what is written, and what may be gone on with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.bench.peers import session, writing
from tests.bench.peers.common import Wrong
from tests.bench.peers.findings import Finding
from tests.bench.peers.report import markdown
from tests.bench.peers.scale import QUICK, SMOKE
from tests.bench.peers.servers import Server
from tests.bench.peers.turns import Run


class FakePeer:
    load, durability = "", "none"

    def __init__(self, name: str, *, pace: int = 1000, starts: bool = True) -> None:
        self.name, self.pace, self.starts = name, pace, starts
        self.offers = frozenset({"work"})
        self.started = self.stopped = 0

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return "1"

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        if not self.starts:
            raise RuntimeError("does not answer")
        self.started += 1
        yield Server(f"{self.name}:{self.started}", os.getpid(), 0.1, home)
        self.stopped += 1


def found_of(*peers: FakePeer, planned: list[str]) -> Finding:
    return Finding(
        machine={"processor": "slow"},
        commit="abc",
        code="1",
        clients={"pika": "1"},
        scale=asdict(QUICK),
        peers=[{"name": one.name, "version": one.version(), "durable": one.durability} for one in peers],
        skipped={},
        planned=planned,
    )


def run_of(*peers: FakePeer, rounds: int = 2) -> Run:
    return Run(peers, replace(QUICK, rounds=rounds), None, lambda step: None)


def turns(title: str, log: list[str], broken: str = "", kind: str | None = None):
    """A workload that notes who works, and in which one peer's messages do not add up in its second turn."""

    def work(peer, server):
        log.append(peer.name)
        if peer.name == broken and log.count(broken) == 2:
            raise Wrong("checksum: 1 instead of 2")
        return {"messages": 10, "produce_per_s": 5.0}

    return lambda run: run.take_turns(title, run.servers(run.offering("work")), work, kind=kind)


def test_a_peer_whose_messages_do_not_add_up_has_no_figures_and_the_others_go_on():
    log: list[str] = []
    good, bad = FakePeer("good"), FakePeer("bad")
    found = found_of(good, bad, planned=["one"])

    with run_of(good, bad, rounds=3) as run:
        found.with_measured(run.measure("one", turns("one", log, broken="bad")))

    assert log == ["good", "bad", "bad", "good", "good"]
    assert [(one.peer, one.round) for one in found.samples()] == [("good", 0), ("good", 1), ("good", 2)]
    assert markdown(found).splitlines()[2] == "**Failed:** bad in one: Wrong: checksum: 1 instead of 2"


def test_a_peer_that_failed_begins_the_next_workload_with_a_new_server():
    good, bad = FakePeer("good"), FakePeer("bad")

    with run_of(good, bad) as run:
        run.measure("one", turns("one", [], broken="bad"))
        second = run.measure("two", turns("two", []))

    assert (good.started, bad.started) == (1, 2)
    assert (good.stopped, bad.stopped) == (1, 2)
    assert second.failures == []
    assert {one.peer for one in second.samples} == {"good", "bad"}


def test_a_server_that_does_not_start_is_a_failure_of_that_peer_alone():
    good, dead = FakePeer("good"), FakePeer("dead", starts=False)

    with run_of(good, dead) as run:
        measured = run.measure("one", turns("one", []))

    assert [(one.peer, one.reason) for one in measured.failures] == [("dead", "RuntimeError: does not answer")]
    assert {one.peer for one in measured.samples} == {"good"}


def test_a_server_warms_up_once_for_each_kind_of_work():
    log: list[str] = []
    peer = FakePeer("peer")

    with run_of(peer, rounds=1) as run:
        run.measure("one", turns("one", log, kind="produce"))
        run.measure("two", turns("two", log, kind="produce"))
        run.measure("three", turns("three", log, kind="consume"))

    assert len(log) == 2 + 1 + 2


def test_a_slow_client_gets_fewer_messages_and_a_large_message_counts_for_more():
    assert QUICK.messages_for(1_000_000, 100, 1_000_000) == 1_000_000
    assert QUICK.messages_for(8_000, 100, 1_000_000) == 16_000
    assert QUICK.messages_for(8_000, 10_000, 50_000) == 2_000
    assert SMOKE.messages_for(10, 100, 2_000) == 1_000


def test_every_workload_is_written_when_it_is_done_and_an_interrupted_one_leaves_nothing(tmp_path):
    peer = FakePeer("peer")
    found = found_of(peer, planned=["one", "two", "three"])
    workloads = {"one": turns("one", []), "two": interrupt, "three": turns("three", [])}

    with pytest.raises(KeyboardInterrupt), run_of(peer) as run:
        write_all(run, workloads, found, tmp_path)

    kept = writing.read(tmp_path)
    assert kept.measured == found.measured
    assert [one.name for one in kept.measured] == ["one"]
    assert (tmp_path / "peers.md").read_text().splitlines()[2] == "**Not run yet:** two, three."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["peers.json", "peers.md"]
    assert peer.started == peer.stopped == 1


def interrupt(run: Run) -> None:
    run.take_turns("two", run.servers(run.peers), lambda peer, server: {"messages": 1})
    raise KeyboardInterrupt


def write_all(run: Run, workloads, found: Finding, out: Path, code: str = "1") -> None:
    session.go_on(
        run, workloads, found.not_run(), found, code=lambda: code, write=lambda so_far: writing.write(so_far, out)
    )


def test_a_run_is_gone_on_with_where_it_ended(tmp_path):
    peer, log = FakePeer("peer"), []
    found = found_of(peer, planned=["one", "two"])
    workloads = {"one": turns("one", log), "two": turns("two", log)}
    with run_of(peer) as run:
        session.go_on(run, workloads, ["one"], found, code=lambda: "1", write=lambda one: writing.write(one, tmp_path))
    there = writing.read(tmp_path)

    resumed = session.resumed(there, found_of(peer, planned=[]))
    with run_of(peer) as run:
        write_all(run, workloads, resumed, tmp_path)

    assert len(log) == 4
    assert writing.read(tmp_path).measured[0] == there.measured[0]
    assert writing.read(tmp_path).not_run() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scale": asdict(replace(QUICK, rounds=2))}, "scale: rounds was 3 and is 2"),
        ({"scale": asdict(SMOKE)}, "scale: name was quick and is smoke"),
        ({"machine": {"processor": "fast"}}, "machine: processor was slow and is fast"),
        ({"code": "2", "commit": "def"}, "commit was abc and is def, and src or tests/bench differ"),
        ({"clients": {"pika": "2"}}, "version of the client pika was 1 and is 2"),
        ({"peers": []}, "version of peer was 1 and is not there"),
    ],
)
def test_a_run_under_other_circumstances_is_not_gone_on_with(change, said):
    there = found_of(FakePeer("peer"), planned=["one"])

    with pytest.raises(session.Refused, match=said):
        session.resumed(there, replace(there, **change))


def test_there_must_be_a_run_to_go_on_with(tmp_path):
    with pytest.raises(session.Refused, match=r"no peers\.json in --out"):
        session.resumed(writing.read(tmp_path), found_of(planned=[]))


def test_logs_may_come_in_later_but_not_in_other_sizes():
    peer = FakePeer("peer")
    there = found_of(peer, planned=["one", "log"])
    here = replace(there, scale=there.scale | {"log_gib": (1.0, 10.0)})

    gone_on = session.resumed(there, here)
    with run_of(peer) as run:
        gone_on.with_measured(run.measure("log", turns("1 GiB in the log", [])))

    assert gone_on.scale["log_gib"] == (1.0, 10.0)
    with pytest.raises(session.Refused, match="log_gib"):
        session.resumed(gone_on, replace(there, scale=there.scale | {"log_gib": (1.0, 30.0)}))


def test_a_workload_in_which_a_peer_failed_is_only_measured_again_when_that_is_asked_for():
    good, bad = FakePeer("good"), FakePeer("bad")
    found = found_of(good, bad, planned=["one", "two", "three"])
    with run_of(good, bad) as run:
        found.with_measured(run.measure("one", turns("one", [])))
        found.with_measured(run.measure("two", turns("two", [], broken="bad")))

    assert session.to_do(found, [], retry=False) == ["three"]
    assert session.to_do(found, [], retry=True) == ["two", "three"]
    assert session.to_do(found, ["two"], retry=False) == []


def test_what_was_measured_while_the_code_changed_is_not_kept(tmp_path):
    peer = FakePeer("peer")
    found = found_of(peer, planned=["one"])

    with pytest.raises(session.Refused, match="changed during one"), run_of(peer) as run:
        write_all(run, {"one": turns("one", [])}, found, tmp_path, code="2")

    assert found.measured == []


def test_a_run_has_what_was_picked_now_and_before_in_one_order():
    workloads = {"one": turns("one", []), "two": turns("two", []), "three": turns("three", [])}
    there = found_of(planned=["three"])

    assert session.planned(workloads, ["one"], there) == ["one", "three"]
    assert session.planned(workloads, [], None) == ["one", "two", "three"]
    with pytest.raises(session.Refused, match="no workload four at this scale; there are: one, two, three"):
        session.planned(workloads, ["four"], None)


def test_processor_time_of_a_child_that_has_ended_is_not_lost(tmp_path):
    # Redis forks to write its file; what such a child used must not be subtracted once it is gone.
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    server = Server("nowhere", os.getpid(), 0.1, tmp_path)
    before = server.cpu_seconds()

    subprocess.run([sys.executable, "-c", busy], check=True)

    assert server.cpu_seconds() - before >= 0.2
