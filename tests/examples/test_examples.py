"""The examples, run as their readers would run them, on a broker whose clock the test advances."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
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
