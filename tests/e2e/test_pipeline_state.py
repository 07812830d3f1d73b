"""The state of a pipeline in an object store: locks, words to stop, beginnings and history, on a real S3 server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from tests.s3_server import s3_environment, s3_server

pytest.importorskip("moto", reason="needs moto[server]")
pytest.importorskip("s3fs", reason="needs s3fs")

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running import state
from goqueue.pipeline.declared.running.history import History
from goqueue.pipeline.declared.running.progress import BatchFacts
from goqueue.pipeline.declared.running.run_files import RunFiles
from goqueue.pipeline.declared.running.state import Held, state_at


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server("lake") as address:
        yield address


@pytest.fixture
def pipeline(s3: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Pipeline:
    for name, value in s3_environment(s3).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(state, "_SETTLED_S", 0.05)
    return load_values(
        {
            "name": "small",
            "checkpoint": f"s3://lake/{request.node.name}",
            "sources": {"events": {"topic": "events"}},
            "sinks": [{"console": {}}],
        }
    )


def test_a_second_run_is_refused_and_a_word_to_stop_reaches_the_first(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = RunFiles(pipeline), RunFiles(pipeline)
    monkeypatch.setattr(state.StoreState, "every_s", 0.0)
    with first.held():
        first.write({"state": "running", "sinks": []})
        with pytest.raises(InvalidRequest, match=r"it runs already, as process .* on "), second.held():
            pass
        found = second.read()
        assert found is not None
        assert found["running"]
        assert not first.is_asked_to_stop
        second.ask_to_stop()
        assert first.is_asked_to_stop
        first.write({"state": "stopped", "sinks": []})
    second.refuse_second()


def test_a_run_that_was_killed_counts_as_crashed_once_its_lock_was_not_renewed(pipeline: Pipeline) -> None:
    files, place = RunFiles(pipeline), state_at(pipeline.checkpoint_path)
    files.write({"state": "running", "sinks": [{"sink": "console", "active": True}]})
    old = {"owner": "x", "pid": 7, "host": "elsewhere", "renewed_s": 1000.0}
    place.write("run.lock", json.dumps(old))

    found = files.read()

    assert found is not None
    assert (found["state"], found["running"], found["sinks"][0]["active"]) == ("crashed", False, False)
    with files.held():
        assert place.holder("run.lock") is not None


def test_of_two_that_begin_at_once_one_is_refused(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    place, other = state_at(pipeline.checkpoint_path), state_at(pipeline.checkpoint_path)
    taken = iter([other.held("a.lock")])

    def pause(_seconds: float) -> None:
        # Between what the first wrote and its second look.
        for one in taken:
            monkeypatch.setattr(other, "holder", lambda _name: None)
            one.__enter__()

    monkeypatch.setattr(state.time, "sleep", pause)
    with pytest.raises(Held), place.held("a.lock"):
        pass


def test_a_run_that_slept_through_its_lock_leaves_it_to_who_has_taken_it(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = state_at(pipeline.checkpoint_path)
    monkeypatch.setattr(state, "_RENEW_S", 0.01)
    theirs = json.dumps({"owner": "other", "pid": 7, "host": "elsewhere", "renewed_s": time.time()})
    with place.held("a.lock"):
        place.write("a.lock", theirs)
        deadline = time.monotonic() + 10
        while "another run has it" not in caplog.text:
            assert time.monotonic() < deadline
            # A renewal that was under way has overwritten it.
            place.write("a.lock", theirs)

    assert place.read("a.lock") == theirs
    place.remove("a.lock")


def test_history_grows_in_the_store_over_runs(pipeline: Pipeline) -> None:
    for number in range(3):
        history = History(pipeline)
        history.note("console", [BatchFacts(number, None, 1, 1, 1.0, 1, {}, {})])
        history.flush()

    assert [row["batch"] for row in History(pipeline).read()] == [0, 1, 2]


def test_files_below_a_folder_of_a_store_are_seen(pipeline: Pipeline) -> None:
    kept = state_at(pipeline.checkpoint_path)
    assert not kept.has_files("query/offsets")
    kept.write("query/offsets/.0.crc", "")
    assert not kept.has_files("query/offsets")
    kept.write("query/offsets/101", "v1")
    assert kept.has_files("query/offsets")
