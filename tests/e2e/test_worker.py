"""`goqueue worker` as a process, and the page that describes it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goqueue.cli.running.worker_table import table_of
from goqueue.client import sync
from goqueue.worker.progress import Progress, TaskCounts

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "worker.md"
GOQUEUE = Path(sys.executable).parent / "goqueue"
APP = """
import os, time
from pathlib import Path
from goqueue.worker import Worker, current

app = Worker(name={name!r}, queue={name!r}, partitions=1)

@app.task(name="note", retries=1, backoff="1ms", timeout="3s")
def note(folder: str, what: str) -> None:
    with (Path(folder) / what).open("a") as file:
        file.write(f"{{os.getpid()}}\\n")
    if what == "hang" and current().attempt == 1:
        time.sleep(600)
    if what == "fail":
        raise ValueError("it failed")
    if what == "slow":
        time.sleep(1)

@app.task(name="coroutine")
async def coroutine(folder: str) -> None:
    (Path(folder) / "coroutine").touch()
"""


def until(condition, seconds_max=40.0):
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)


class WorkerProcess:
    """`goqueue worker` in a folder, until the block is left."""

    def __init__(self, folder, broker, *options, app="jobs:app"):
        self.log = folder / "worker.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(GOQUEUE), "worker", app, f"--server=http://{broker.http}", *options],
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    @property
    def events(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


def send(broker, name, task, *args):
    with sync.connect(f"http://{broker.http}") as client:
        client.create_topic(name, partitions=1, exist_ok=True)
        with client.producer() as producer:
            producer.send(name, json={"args": list(args)}, headers={"task-name": task, "task-id": f"id-{args[-1]}"})


def test_a_worker_with_processes_runs_limits_retries_and_stops_in_order(broker, tmp_path):
    (tmp_path / "jobs.py").write_text(APP.format(name="in-processes"))
    folder = str(tmp_path)
    with WorkerProcess(tmp_path, broker, "--pool=processes", "--concurrency=2") as worker:
        for what in ("ok", "hang", "fail"):
            send(broker, "in-processes", "note", folder, what)
        send(broker, "in-processes", "coroutine", folder)
        until(lambda: (tmp_path / "hang").exists() and len((tmp_path / "hang").read_text().split()) == 2)
        until(lambda: len([one for one in worker.events if one.get("task")]) >= 6)
        code = worker.stop()

    assert code == 0, worker.log.read_text()
    first, second = (tmp_path / "hang").read_text().split()
    assert first != second, "the process that hung was killed"
    assert str(worker.process.pid) not in {first, second}
    assert len((tmp_path / "fail").read_text().split()) == 2
    told = [(one["message"], one["id"], one["attempt"]) for one in worker.events if "task" in one]
    assert ("task note done", "id-ok", 1) in told
    assert ("task note failed and will be retried", "id-hang", 1) in told
    assert ("task note done", "id-hang", 2) in told
    assert ("task note failed for the last time and is a dead letter", "id-fail", 2) in told
    assert any("ValueError: it failed" in one.get("traceback", "") for one in worker.events)


def test_sigterm_lets_a_task_finish_and_nothing_runs_twice(broker, tmp_path):
    (tmp_path / "jobs.py").write_text(APP.format(name="sigterm"))
    with WorkerProcess(tmp_path, broker) as worker:
        send(broker, "sigterm", "note", str(tmp_path), "slow")
        until((tmp_path / "slow").exists)
        assert worker.stop() == 0
    done = [one for one in worker.events if one["message"] == "task note done"]
    with WorkerProcess(tmp_path, broker) as second:
        send(broker, "sigterm", "coroutine", str(tmp_path))
        until((tmp_path / "coroutine").exists)
        assert second.stop() == 0

    assert len(done) == 1
    assert len((tmp_path / "slow").read_text().split()) == 1


def test_reload_starts_the_worker_again_when_a_file_changes(broker, tmp_path):
    code = APP.format(name="reload")
    (tmp_path / "jobs.py").write_text(code)
    with WorkerProcess(tmp_path, broker, "--reload") as worker:
        send(broker, "reload", "note", str(tmp_path), "before")
        until((tmp_path / "before").exists)
        (tmp_path / "jobs.py").write_text(code.replace("coroutine", "renamed"))
        send(broker, "reload", "renamed", str(tmp_path))
        until((tmp_path / "renamed").exists)
        assert worker.stop() == 0

    assert "the worker starts again" in worker.log.read_text()


@pytest.mark.parametrize(
    ("app", "options", "code", "message"),
    [
        ("nothing:app", [], 2, "there is no module 'nothing'"),
        ("json:app", [], 2, "'json:app' is not a worker app"),
        ("jobs:app", ["--concurrency=0"], 2, "concurrency=0 is too small"),
        ("jobs:app", ["--queue=other"], 2, "no task of app 'wrong' is of queue other"),
        ("jobs:app", ["--grace=soon"], 2, "--grace 'soon' is not a duration"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(broker, tmp_path, app, options, code, message):
    (tmp_path / "jobs.py").write_text(APP.format(name="wrong"))
    with WorkerProcess(tmp_path, broker, *options, app=app) as worker:
        assert worker.process.wait(30) == code

    printed = worker.log.read_text()
    assert message in printed
    assert "Traceback" not in printed


def test_an_app_that_cannot_be_imported_is_a_traceback_and_exit_code_2(broker, tmp_path):
    (tmp_path / "jobs.py").write_text("import nothing_of_that_name\n")
    with WorkerProcess(tmp_path, broker) as worker:
        assert worker.process.wait(30) == 2
    assert "No module named 'nothing_of_that_name'" in worker.log.read_text()


def test_no_broker_is_exit_code_3(tmp_path):
    class Nowhere:
        http = "127.0.0.1:1"

    (tmp_path / "jobs.py").write_text(APP.format(name="nowhere"))
    with WorkerProcess(tmp_path, Nowhere) as worker:
        assert worker.process.wait(30) == 3, worker.log.read_text()


def test_the_page_on_workers_works_from_top_to_bottom(broker, tmp_path):
    page = PAGE.read_text().replace("127.0.0.1:8080", broker.http)
    first, options, tests = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "errands.py").write_text(first)
    subprocess.run([sys.executable, "errands.py"], cwd=tmp_path, check=True, timeout=60)
    with WorkerProcess(tmp_path, broker, "--concurrency=8", app="errands:app") as worker:
        until(lambda: "fetched 2 milk" in worker.log.read_text())
        finished = subprocess.run(
            [sys.executable, "-c", options], cwd=tmp_path, check=True, timeout=60, capture_output=True, text=True
        )
        until(lambda: "fetched 1 tea" in worker.log.read_text())
        assert worker.stop() == 0
    (tmp_path / "test_errands.py").write_text(tests)
    others = [f"-pno:{name}" for name in ("asyncio", "schemathesis", "xdist", "cacheprovider")]
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "goqueue.testing.pytest_plugin", *others, "-rA"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert finished.stdout == "stored again: False\n"
    assert worker.log.read_text().count("fetched 1 milk") == 1
    assert tested.stdout.count("PASSED") == 2, tested.stdout
    with sync.connect(f"http://{broker.http}") as client:
        assert client.schedules.get("errands.errands.report")["timezone"] == "Europe/Berlin"
        assert client.topic("fetched").total_messages == 1


def test_the_table_shows_each_task_and_what_is_unfinished():
    from io import StringIO

    from rich.console import Console

    progress = Progress()
    progress.tasks["shop.fetch"] = TaskCounts(
        running=1, done=4, retried=2, failed=1, ms=10, last_error="ValueError: no"
    )
    shown = StringIO()
    Console(file=shown, width=80).print(table_of(progress, {"errands": 3}))

    lines = shown.getvalue().splitlines()
    assert "errands: 3 unfinished" in lines[0]
    assert lines[-1].split() == ["shop.fetch", "1", "4", "2", "1", "2.5", "ValueError:", "no"]
