"""Celery on GoQueue: workers as processes, with Celery's own program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("celery")

from celery import Celery
from kombu import Connection, Consumer, Exchange, Queue
from kombu.asynchronous import Hub

import goqueue.celery
from goqueue.client import sync

PROJECT = """
import os, time
from pathlib import Path
import goqueue.celery
from celery import Celery

app = Celery("project", broker=os.environ.get("BROKER"))
app.conf.task_default_queue = os.environ["QUEUE"]
app.conf.broker_transport_options = {"visibility_timeout": 3, "partitions": 1}
app.conf.worker_prefetch_multiplier = 4
app.conf.broker_connection_retry_on_startup = True
FOLDER = Path(os.environ["FOLDER"])

@app.task(name="note", acks_late=True)
def note(what, seconds=0):
    with (FOLDER / what).open("a") as file:
        file.write(f"{os.getpid()} {time.time()}\\n")
    time.sleep(seconds)

@app.task(name="chain", bind=True, max_retries=2)
def again(self, what):
    note(what)
    raise self.retry(countdown=0.2)

@app.task(name="from_child")
def from_child(what):
    note.delay(what)
"""


def until(condition, seconds_max=40.0):
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)


class Project:
    """A Celery app in a folder, its workers, and a sender."""

    def __init__(self, folder: Path, broker, queue: str):
        self.folder, self.queue, self.broker = folder, queue, broker
        self.url = f"goqueue://{broker.http}"
        (folder / "project.py").write_text(PROJECT)
        self.app = Celery("sender", broker=self.url, set_as_current=False)
        self.app.conf.task_default_queue = queue
        self.app.conf.broker_transport_options = {"partitions": 1}
        self._workers: list[subprocess.Popen[bytes]] = []

    def send(self, task, *args, **options):
        return self.app.send_task(task, args, **options)

    def worker(self, *options, command=("-A", "project", "worker"), **environment):
        given = {"BROKER": self.url, "QUEUE": self.queue, "FOLDER": str(self.folder), **environment}
        with (self.folder / "worker.log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "celery", *command, "--loglevel=info", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **{name: value for name, value in given.items() if value is not None}},
            )
        self._workers.append(worker)
        return worker

    def runs(self, what):
        path = self.folder / what
        return path.read_text().splitlines() if path.exists() else []

    @property
    def log(self):
        return (self.folder / "worker.log").read_text()

    def close(self):
        for worker in self._workers:
            if worker.poll() is None:
                # Its pool processes are in its group.
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        self.app.close()


@pytest.fixture
def project(broker, tmp_path, request):
    made = Project(tmp_path, broker, request.node.name[:60])
    yield made
    made.close()


def stop(worker):
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0


def test_tasks_run_are_retried_and_send_others_and_the_worker_stops_in_order(project):
    worker = project.worker("-c2", "-n", "w1@%h")
    project.send("note", "one")
    project.send("chain", "again")
    project.send("from_child", "child")
    until(lambda: len(project.runs("again")) == 3 and project.runs("one") and project.runs("child"))
    answers = project.app.control.inspect(timeout=3).ping()
    stop(worker)

    assert list(answers.values()) == [{"ok": "pong"}]
    assert len(project.runs("one")) == len(project.runs("child")) == 1
    with sync.connect(f"http://{project.broker.http}") as client:
        assert [one.name for one in client.topics() if "pidbox" in one.name] == [], "they go with their worker"


@pytest.mark.slow
def test_an_eta_far_beyond_the_visibility_timeout_runs_once_and_no_worker_holds_it(project):
    first, second = project.worker("-c1", "-n", "w1@%h"), project.worker("-c1", "-n", "w2@%h")
    began_s = time.time()
    project.send("note", "later", countdown=10)
    project.send("note", "next year", countdown=365 * 86_400)
    project.send("note", "now")
    until(lambda: project.runs("now"))
    reserved = project.app.control.inspect(timeout=3).scheduled() or {}
    until(lambda: project.runs("later"))
    # As long as the lease of a message that somebody held would have lasted, and more.
    deadline = time.monotonic() + 4
    until(lambda: time.monotonic() > deadline)
    for worker in (first, second):
        stop(worker)

    assert [one for held in reserved.values() for one in held] == []
    ((_, at_s),) = [line.split() for line in project.runs("later")]
    assert float(at_s) - began_s >= 9.9
    assert project.runs("next year") == []


def test_a_task_that_works_for_longer_than_the_visibility_timeout_runs_once_and_so_do_prefetched_ones(project):
    first = project.worker("-c1", "-n", "w1@%h")
    for what in ("slow", "behind", "last"):
        project.send("note", what, 8 if what == "slow" else 0)
    until(lambda: project.runs("slow"))
    second = project.worker("-c1", "-n", "w2@%h")
    until(lambda: project.runs("behind") and project.runs("last"))
    for worker in (first, second):
        stop(worker)

    assert [len(project.runs(what)) for what in ("slow", "behind", "last")] == [1, 1, 1]


def test_what_a_killed_worker_had_is_run_by_another(project):
    first = project.worker("-c1", "-n", "w1@%h")
    project.send("note", "killed", 3)
    until(lambda: project.runs("killed"))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = project.worker("-c1", "-n", "w2@%h")
    until(lambda: len(project.runs("killed")) == 2)
    stop(second)


@pytest.mark.parametrize("how", ["--broker", "broker_transport"])
def test_the_broker_can_be_named_on_the_command_line_or_by_the_class(project, how):
    if how == "--broker":
        worker = project.worker("-c1", command=("-A", "project", "-b", project.url, "worker"), BROKER=None)
    else:
        code = (
            PROJECT.replace("import goqueue.celery\n", "") + 'app.conf.broker_transport = "goqueue.celery:Transport"\n'
        )
        (project.folder / "project.py").write_text(code)
        worker = project.worker("-c1", BROKER=project.url.replace("goqueue://", "http://"))
    project.send("note", "named")
    until(lambda: project.runs("named"))
    stop(worker)


def test_messages_that_are_given_back_do_not_count_as_a_delivery_and_rejected_ones_are_dead_letters(project):
    project.send("note", "kept")
    for _ in range(6):
        with project.app.connection_for_write() as connection:
            message = connection.channel().basic_get(project.queue)
            assert message is not None
            assert not message.delivery_info["redelivered"]
    with project.app.connection_for_write() as connection:
        channel = connection.channel()
        channel.basic_get(project.queue).requeue()
        again = channel.basic_get(project.queue)
        assert again.delivery_info["redelivered"], "a task sees that it was requeued"
        again.reject()
        assert channel.basic_get(project.queue) is None

    with sync.connect(f"http://{project.broker.http}") as client:
        # The move to the dead letters follows the answer.
        until(lambda: client.dead_letters(project.queue).total == 1)


def test_urgent_tasks_overtake_others(project):
    for priority in (1, None, 9, 6):
        project.send("note", str(priority), priority=priority)
    with project.app.connection_for_write() as connection:
        channel = connection.channel()
        order = [channel.basic_get(project.queue).payload[0][0] for _ in range(4)]

    assert order[0] == "9"
    assert sorted(order) == ["1", "6", "9", "None"]


def test_queues_are_counted_purged_and_deleted(project):
    for number in range(5):
        project.send("note", str(number))
    with project.app.connection_for_write() as connection:
        channel = connection.channel()
        assert channel.queue_declare(project.queue, passive=True).message_count == 5
        assert channel.queue_purge(project.queue) == 5
        assert channel.basic_get(project.queue) is None
        channel.queue_delete(project.queue)
        with pytest.raises(connection.channel_errors):
            channel.queue_declare(project.queue, passive=True)


def test_a_connection_that_is_used_behind_a_fork_opens_its_own_sockets(project):
    with project.app.connection_for_write() as connection:
        http = connection.transport.http if connection.connect() else None
        assert http is not None
        before = len(http._idle)
        child = os.fork()
        if child == 0:
            ok = http._idle == [] and http.call("GET", "/version") is not None
            os._exit(0 if ok and before > 0 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert http.call("GET", "/version")


def kombu_connection(broker, **options):
    return Connection(f"goqueue://{broker.http}", transport_options={"partitions": 1, **options})


def test_what_was_sent_to_all_workers_before_a_task_is_delivered_before_it(broker):
    exchange = Exchange("before.all", type="fanout")
    mailbox = Queue("before.mailbox", exchange, auto_delete=True)
    tasks = Queue("before.tasks", Exchange("before.tasks"), routing_key="before.tasks")
    heard = []

    def hear(body, message):
        heard.append(body)
        if message.delivery_info["queue"] == tasks.name:
            message.ack()

    with kombu_connection(broker) as sender, kombu_connection(broker) as worker:
        # The tasks' queue is read first, as Celery's worker does it.
        reading = Consumer(worker.channel(), [tasks], callbacks=[hear])
        listening = Consumer(worker.channel(), [mailbox], callbacks=[hear], no_ack=True)
        with reading, listening:
            producer = sender.Producer()
            for number in range(3):
                producer.publish(f"revoke {number}", exchange=exchange, declare=[exchange])
                producer.publish(f"task {number}", exchange=tasks.exchange, routing_key=tasks.routing_key)
                while f"task {number}" not in heard:
                    worker.drain_events(timeout=5)
    assert heard == [f"{what} {number}" for number in range(3) for what in ("revoke", "task")]


def test_a_worker_that_finished_its_tasks_does_not_wait_for_the_next_polling_interval(broker):
    queue = Queue("busy.tasks", Exchange("busy.tasks"), routing_key="busy.tasks")
    heard = []

    def hear(body, message):
        heard.append(body)
        hub.call_soon(message.ack)

    hub = Hub()
    with kombu_connection(broker, worker_polling_interval=3600) as connection:
        producer = connection.Producer()
        for number in range(10):
            producer.publish(number, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue])
        with connection.channel() as channel, Consumer(channel, [queue], callbacks=[hear], accept=["json"]) as consumer:
            consumer.qos(prefetch_count=2)
            connection.transport.register_with_event_loop(connection, hub)
            connection.transport.poll_soon()
            until(lambda: hub.run_once() or len(heard) == 10, 10)
    hub.close()
    assert heard == list(range(10))


def test_the_name_is_known_to_kombu():
    assert goqueue.celery.Transport.driver_type == "goqueue"


def test_the_first_example_of_the_page_on_celery_runs(broker, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "celery.md").read_text()
    with_celery, with_dramatiq = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for name, code in (("shop", with_celery), ("actors", with_dramatiq)):
        (tmp_path / f"{name}.py").write_text(code.replace("127.0.0.1:8080", broker.http))
        subprocess.run([sys.executable, f"{name}.py"], cwd=tmp_path, check=True, timeout=60)
    log = tmp_path / "worker.log"
    programs = (["celery", "-A", "shop", "worker", "-c1"], ["dramatiq", "actors", "--processes=1", "--threads=1"])
    for program in programs:
        log.write_bytes(b"")
        with log.open("ab") as out:
            worker = subprocess.Popen(
                [sys.executable, "-u", "-m", *program],
                cwd=tmp_path,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            until(lambda: "fetched milk" in log.read_text())
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0, log.read_text()
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        assert "bread" not in log.read_text()
        assert "cake" not in log.read_text()
