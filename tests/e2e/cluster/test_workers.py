"""`goqueue worker` and a Celery worker on three nodes, one of which dies while tasks run: every task runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster
from tests.e2e.test_worker import WorkerProcess

from goqueue.client import sync

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TASKS = 120
APP = """
from pathlib import Path
import time
from goqueue.worker import Worker

app = Worker(name="jobs", queue="jobs", partitions=6)

@app.task(name="note", retries=5, backoff="50ms")
def note(folder: str, what: str) -> None:
    with (Path(folder) / what).open("a") as file:
        file.write("ran\\n")
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def until(condition: Callable[[], bool], seconds_max: float, shown: Callable[[], object]) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, shown()
        time.sleep(0.1)


def addresses(cluster: RealCluster) -> str:
    """Every node, as an address without its scheme."""
    return ",".join(node.http for node in cluster.nodes).removeprefix("http://")


def test_every_task_runs_though_the_node_that_its_worker_asks_is_killed(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    done = tmp_path / "done"
    done.mkdir()
    names = {f"task-{number}" for number in range(TASKS)}
    with (
        sync.connect(cluster.urls) as client,
        WorkerProcess(tmp_path, SimpleNamespace(http=addresses(cluster)), "--concurrency=4") as worker,
    ):
        client.create_topic("jobs", partitions=6, exist_ok=True)
        with client.producer() as producer:
            for at, name in enumerate(sorted(names)):
                body = {"args": [str(done), name]}
                producer.send("jobs", json=body, headers={"task-name": "note", "task-id": name})
                if at == TASKS // 2:
                    producer.flush()
                    until(lambda: any(done.iterdir()), 60, worker.log.read_text)
                    cluster.nodes[0].kill()
        until(lambda: {one.name for one in done.iterdir()} == names, 90, worker.log.read_text)
        assert worker.stop() == 0, worker.log.read_text()
    cluster.nodes[0].start()
    cluster.wait_ready()
    runs = {one.name: len(one.read_text().split()) for one in done.iterdir()}
    again = sum(count > 1 for count in runs.values())
    # What was under way on the killed node runs again, and nothing else.
    assert again <= TASKS // 4, runs


def test_every_celery_task_runs_though_a_node_is_killed(cluster: RealCluster, tmp_path: Path) -> None:
    pytest.importorskip("celery")
    from tests.e2e.test_celery import Project

    # Celery's own way to name several.
    several = ";goqueue://".join(node.http.removeprefix("http://") for node in cluster.nodes)
    project = Project(tmp_path, SimpleNamespace(http=several), "celery-tasks")
    names = [f"celery-{number}" for number in range(60)]
    try:
        project.worker("--concurrency=2", "--pool=threads")
        for at, name in enumerate(names):
            project.send("note", name)
            if at == len(names) // 2:
                until(lambda: bool(project.runs(names[0])), 60, lambda: project.log)
                cluster.nodes[1].kill()
        until(lambda: all(project.runs(name) for name in names), 90, lambda: project.log)
    finally:
        project.close()
        cluster.nodes[1].start()
        cluster.wait_ready()
