"""Who runs a pipeline: seen from outside, refused to a second, and free again after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running.run_files import RunFiles

HOLDS = """
import sys, time
from types import SimpleNamespace
from goqueue.pipeline.declared.running.run_files import RunFiles

files = RunFiles(SimpleNamespace(checkpoint_path=sys.argv[1], name="small"))
with files.held():
    files.write({"state": "running", "sinks": [{"sink": "console", "active": True, "rows_written": 7}]})
    print("runs", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load_values(
        {
            "name": "small",
            "checkpoint": str(tmp_path),
            "sources": {"events": {"topic": "events"}},
            "sinks": [{"console": {}}],
        }
    )


def running(state: str, files: RunFiles) -> bool:
    status = files.read()
    assert status is not None
    assert status["state"] == state
    return bool(status["running"])


def test_a_second_run_is_refused_while_the_first_lasts_and_no_longer(pipeline: Pipeline) -> None:
    first, second = RunFiles(pipeline), RunFiles(pipeline)

    with first.held():
        first.write({"state": "running"})
        assert running("running", second)
        with pytest.raises(InvalidRequest, match=f"as process {os.getpid()}:"):
            second.refuse_second()
        with pytest.raises(InvalidRequest, match=f"as process {os.getpid()}:"), second.held():
            pass
        first.write({"state": "stopped"})

    assert not running("stopped", second)
    with second.held():
        second.write({"state": "running"})
        assert running("running", first)


def test_a_run_that_was_killed_holds_nobody_up_even_if_another_process_has_its_number(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    files = RunFiles(pipeline)
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        assert running("running", files)
        process.kill()
    # As it looks when the system has given the number away again.
    status = tmp_path / "run.json"
    status.write_text(status.read_text().replace(str(process.pid), str(os.getpid())))

    assert not running("crashed", files)
    status_now = files.read()
    assert status_now is not None
    assert status_now["sinks"] == [{"sink": "console", "active": False, "rows_written": 7}]
    files.refuse_second()
    with files.held():
        # Before the next run has said anything, nothing of the crashed one is told of it.
        assert running("starting", files)
    assert not running("crashed", files)


def test_word_to_stop_is_for_the_run_that_lasts_and_not_for_the_next(pipeline: Pipeline) -> None:
    files = RunFiles(pipeline)
    with files.held():
        RunFiles(pipeline).ask_to_stop()
        assert files.is_asked_to_stop

    with files.held():
        assert not files.is_asked_to_stop


def test_what_never_ran_is_unknown(pipeline: Pipeline) -> None:
    assert RunFiles(pipeline).read() is None
    RunFiles(pipeline).refuse_second()
