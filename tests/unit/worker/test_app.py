"""The decorators, and tasks that run eagerly."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.client import ClientError, InvalidArgument
from goqueue.worker import InvalidTaskArguments, Worker, current
from goqueue.worker.handling import load_app
from goqueue.worker.logs import configure_logging
from goqueue.worker.running import Running


@pytest.fixture
def app():
    return Worker("http://127.0.0.1:1", name="shop")


def test_a_task_is_still_a_function(app):
    @app.task(queue="errands")
    def fetch(item: str, count: int = 1) -> str:
        """Fetch it."""
        return f"{count} {item}"

    assert fetch("milk", count=2) == "2 milk"
    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch it.")
    assert fetch.name.endswith("test_app.test_a_task_is_still_a_function.fetch")
    assert app.queues == ["errands"]


def test_apps_have_queues_of_their_own():
    shop, office = Worker("http://127.0.0.1:1", name="shop"), Worker("http://127.0.0.1:1", name="office")
    for app in (shop, office):

        @app.every("0 9 * * *")
        def report() -> None:
            pass

    # Another app is another group, and would get every message of a queue that both have.
    assert (shop.queues, office.queues) == (["shop.tasks"], ["office.tasks"])


def test_eager_tasks_run_where_they_are_sent_with_arguments_that_went_through_json(app, goqueue_eager):
    seen = []

    @app.task()
    def fetch(item: tuple[str, int]) -> None:
        seen.append(item)

    @app.task()
    async def ping(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)

    goqueue_eager(app)
    fetch.send(("milk", 2))
    fetch.send_later("2h", ("tea", 1))
    ping.send(7)

    assert seen == [("milk", 2), ("tea", 1), 7]
    with pytest.raises(InvalidTaskArguments, match="argument 'number'"):
        ping.send("seven")


async def test_an_eager_coroutine_runs_inside_of_another_event_loop(app, goqueue_eager):
    seen = []

    @app.task()
    async def ping() -> None:
        seen.append("ping")

    goqueue_eager(app)
    await ping.send_async()
    ping.send()

    assert seen == ["ping", "ping"]


def test_what_an_eager_task_raises_reaches_the_sender(app, goqueue_eager):
    @app.task(retries=5)
    def fail() -> None:
        raise ZeroDivisionError

    goqueue_eager(app)
    with pytest.raises(ZeroDivisionError):
        fail.send()


@pytest.mark.parametrize(
    "decorate",
    [
        lambda app: app.task(retries=-1),
        lambda app: app.task(backoff="soon"),
        lambda app: app.task(timeout="fast"),
        lambda app: [app.task(name="same")(lambda: None), app.task(name="same")(lambda: None)],
        lambda app: app.every("0 9 * * *")(lambda needed: None),
        Running,
        lambda app: [app.task(queue="a")(lambda: None), Running(app, queues=["b"])],
    ],
)
def test_mistakes_are_refused_before_anything_runs(app, decorate):
    with pytest.raises(InvalidArgument):
        decorate(app)


def test_an_idempotency_key_and_a_delay_exclude_each_other(app):
    @app.task()
    def fetch() -> None: ...

    with pytest.raises(InvalidArgument, match="idempotency_key or a delay"):
        fetch.options(idempotency_key="a").send_later("2h")


def test_current_says_that_no_task_is_running():
    with pytest.raises(ClientError, match="inside a task"):
        current()


@pytest.mark.parametrize("path", ["no.such.module:app", "json:app", "json"])
def test_an_app_that_is_not_there_is_one_message(path):
    with pytest.raises(InvalidArgument, match=r"no module|not a worker app"):
        load_app(path)


def test_logs_are_one_json_object_per_line_with_the_fields_of_the_event(capsys):
    import json
    import logging

    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        configure_logging("json", "info")
        logging.getLogger("goqueue.worker").info("task %s done", "a", extra={"fields": {"task": "a", "ms": 1.5}})
        logged = json.loads(capsys.readouterr().err)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    assert {"level": "info", "message": "task a done", "task": "a", "ms": 1.5}.items() <= logged.items()
