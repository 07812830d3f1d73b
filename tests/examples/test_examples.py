"""The examples, run as their readers would run them, on a broker whose clock the test advances."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def until(condition: Callable[[], bool], seconds_max: float = 60.0) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)


def test_a_reminder_comes_when_it_is_due_and_not_before(goqueue_broker: Any, goqueue_clock: Any) -> None:
    reminders, delivered = example("reminders"), []
    client = goqueue_broker.client()
    reminders.set_up(client)
    reminders.remind(client, "stretch your legs", "1h")

    assert reminders.work(client, delivered.append, wait=0) == 0
    goqueue_clock.advance(hours=1)
    reminders.work(client, delivered.append)

    assert "stretch your legs" in delivered


def test_a_reminder_is_still_there_after_a_restart(goqueue_broker: Any, goqueue_clock: Any) -> None:
    reminders, delivered = example("reminders"), []
    reminders.set_up(goqueue_broker.client())
    reminders.remind(goqueue_broker.client(), "call the dentist", "1h")

    goqueue_broker.restart()
    goqueue_clock.advance(hours=1)
    reminders.work(goqueue_broker.client(), delivered.append)

    assert "call the dentist" in delivered


def test_the_stand_up_comes_on_five_days_of_a_week(goqueue_broker: Any, goqueue_clock: Any) -> None:
    reminders, delivered = example("reminders"), []
    client = goqueue_broker.client()
    reminders.set_up(client)

    for _ in range(7):
        goqueue_clock.advance(days=1)
        reminders.work(client, delivered.append)

    assert delivered == ["stand-up in ten minutes"] * 5


def everything(client: Any, topic: str) -> list[str]:
    partitions = client.topic(topic)["partitions"]
    messages = [one for partition in range(partitions) for one in client.read(topic, partition)[0]]
    return sorted(json.loads(one.value)["id"] for one in messages)


def test_orders_go_through_the_saga_and_refused_payments_are_cancelled(goqueue_broker: Any) -> None:
    saga = example("order_saga")
    client = goqueue_broker.client()
    saga.set_up(client)
    for number, amount in enumerate((10, 5000, 20)):
        saga.place(client, {"id": f"order-{number}", "amount": amount})

    assert saga.work(client, "reserve-1", "orders", saga.reserve) == 3
    assert saga.work(client, "charge-1", "payments", saga.charge(limit=100)) == 3

    assert everything(client, "shipments") == ["order-0", "order-2"]
    assert everything(client, "cancellations") == ["order-1"]


def test_a_step_that_fails_halfway_leaves_nothing_and_is_done_again(goqueue_broker: Any, goqueue_clock: Any) -> None:
    saga = example("order_saga")
    client = goqueue_broker.client()
    saga.set_up(client)
    saga.place(client, {"id": "order-0", "amount": 10})

    def fails(_order: dict[str, Any]) -> str:
        raise ConnectionError("the bank does not answer")

    with pytest.raises(ConnectionError):
        saga.work(client, "charge-1", "orders", fails)
    goqueue_clock.advance(hours=1)
    again = saga.work(client, "charge-1", "orders", saga.reserve)

    assert again == 1
    assert everything(client, "payments") == ["order-0"]


@pytest.fixture
def signups(goqueue_worker: Any) -> tuple[ModuleType, Any, Any]:
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    service = example("signup_service")
    return service, TestClient(service.api), goqueue_worker(service.app)


def test_a_sign_up_is_accepted_at_once_and_its_mail_is_sent_by_a_worker(signups: tuple[ModuleType, Any, Any]) -> None:
    service, api, worker = signups
    ada = {"name": "Ada", "email": "ada@example.org"}
    answers = [api.post("/signups", json=ada) for _ in range(2)]

    assert [one.status_code for one in answers] == [202, 202]
    assert [one.json()["status"] for one in answers] == ["accepted", "repeated"]
    assert service.Mail.sent == []
    worker.run()
    assert service.Mail.sent == ["ada@example.org: welcome, Ada (attempt 1)"]


def test_a_mail_server_that_is_down_costs_a_retry_and_no_sign_up(
    signups: tuple[ModuleType, Any, Any], goqueue_clock: Any
) -> None:
    service, api, worker = signups
    api.post("/signups", json={"name": "Bob", "email": "bob@example.org"})
    service.Mail.down = True
    worker.run()
    service.Mail.down = False
    goqueue_clock.advance(minutes=2)
    worker.run()

    assert service.Mail.sent == ["bob@example.org: welcome, Bob (attempt 2)"]
    assert api.get("/signups/failed").json() == []


def test_an_address_that_can_never_work_is_listed_with_its_reason(signups: tuple[ModuleType, Any, Any]) -> None:
    _, api, worker = signups
    api.post("/signups", json={"name": "Eve", "email": "nowhere"})
    worker.run()

    until(lambda: len(api.get("/signups/failed").json()) == 1)
    (letter,) = api.get("/signups/failed").json()
    assert "'nowhere' is not a mail address" in letter["error"]
    assert api.post("/signups", json={"name": "Eve"}).status_code == 422


def test_celery_tasks_are_run_delayed_and_rejected(
    goqueue_session_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("celery")
    broker = goqueue_session_broker
    monkeypatch.setenv("GOQUEUE_CELERY", broker.http_url.replace("http://", "goqueue://"))
    monkeypatch.setenv("INVOICES", str(tmp_path))
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "solo", "--loglevel", "error"]
    example("celery_app").main()
    client = broker.client()
    with subprocess.Popen(command, cwd=EXAMPLES / "celery_app", stdout=DEVNULL, stderr=DEVNULL) as worker:
        try:
            until(lambda: (tmp_path / "order-1.txt").exists() and (tmp_path / "order-2.txt").exists())
            until(lambda: len(client.dead_letters("invoices").letters) == 1)
        finally:
            worker.terminate()

    assert not (tmp_path / "order-1.reminder").exists()
    assert len(client.delayed.list("invoices")) == 1
