"""Delayed and recurring messages from the Python client and from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

from goqueue.client import InvalidArgument, RequestRefused, connect
from goqueue.client.sync import connect as connect_sync


def goqueue(broker: BrokerProcess, *arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "goqueue"), *arguments, "--server", f"http://{broker.http}"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ))
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def values(broker: BrokerProcess, topic: str) -> list[str]:
    found = Http(broker.http).get(f"/topics/{topic}/messages?from=earliest&limit=1000")["messages"]
    return sorted(one["value"] for one in found)


def until_values(broker: BrokerProcess, topic: str, expected: list[str]) -> None:
    deadline = time.monotonic() + 20
    while values(broker, topic) != expected:
        assert time.monotonic() < deadline, values(broker, topic)
        time.sleep(0.02)


async def test_the_client_holds_back_lists_moves_and_cancels(broker: BrokerProcess) -> None:
    async with connect(f"http://{broker.http}") as client, client.producer() as producer:
        soon = await producer.send_and_wait("from-client", b"soon", delay=0.3, key="k")
        later = await producer.send_and_wait(
            "from-client", "later", deliver_at=datetime.now(UTC) + timedelta(days=1000), priority="high"
        )
        never = await producer.send_and_wait("from-client", "never", delay=timedelta(hours=1))
        now = await producer.send_and_wait("from-client", "now", delay="0s")
        assert [one.delayed for one in (soon, later, never, now)] == [True, True, True, False]
        assert soon.deliver_at is not None
        # A delayed record has no place in its topic yet, so that none can be taken for one.
        assert [(one.partition, one.offset, "/" in one.slot) for one in (soon, later, never)] == [(-1, -1, True)] * 3
        assert (now.offset >= 0, now.slot) == (True, "")
        with pytest.raises(InvalidArgument, match="slot='17' is not a slot"):
            await client.delayed.cancel("from-client", "17")
        await client.delayed.cancel("from-client", never.slot)
        shown = await client.delayed.get("from-client", later.slot)
        assert (shown["value"], shown["priority"]) == ("later", "high")
        await client.delayed.reschedule("from-client", later.slot, delay=7200)
        [row] = [one for one in await client.delayed.list("from-client") if one["slot"] == later.slot]
        # The whole two hours are left while the clock still shows the millisecond of the call.
        assert row["time_remaining"].startswith(("2h0m0s", "1h59m"))
        await client.delayed.now("from-client", later.slot)
        until_values(broker, "from-client", ["later", "now", "soon"])
        # A reader may see the message before the disk has the mark that its slot is empty.
        async with asyncio.timeout(20):
            while await client.delayed.list("from-client"):  # noqa: ASYNC110 - the slot lies in the broker
                await asyncio.sleep(0.02)
        with pytest.raises(RequestRefused) as refused:
            await client.delayed.cancel("from-client", soon.slot)
        assert refused.value.code == "delayed_message_not_found"
        created = await client.schedules.create("nightly", "0 3 * * *", "from-client", "v", timezone="Asia/Tokyo")
        assert created["next_runs"][0].endswith("T18:00:00.000Z")
        assert [one["name"] for one in await client.schedules.list()] == ["nightly"]
        await client.schedules.delete("nightly")


def test_the_client_without_await_does_the_same(broker: BrokerProcess) -> None:
    with connect_sync(f"http://{broker.http}") as client, client.producer() as producer:
        held = producer.send_and_wait("from-sync", "v", delay="1h")
        assert [one["slot"] for one in client.delayed.list("from-sync")] == [held.slot]
        client.delayed.now("from-sync", held.slot)
        until_values(broker, "from-sync", ["v"])
        assert client.delayed.stats()["total_delivered"] >= 1
        client.schedules.create("weekly", "0 0 * * SUN", "from-sync", "v")
        assert client.schedules.get("weekly")["cron"] == "0 0 * * SUN"
        client.schedules.delete("weekly")


def test_the_command_line_holds_back_shows_moves_and_cancels(broker: BrokerProcess) -> None:
    said = goqueue(broker, "produce", "from-cli", "--create", "-m", "one", "--delay", "1h")
    slot = said.split()[2]
    assert said.startswith(f"from-cli slot {slot} is due at ")
    goqueue(broker, "produce", "from-cli", "-m", "two", "--deliver-at", "2099-01-01T00:00:00Z")
    listed = json.loads(goqueue(broker, "delayed", "list", "from-cli", "-o", "json"))
    assert listed[0]["slot"] == slot
    assert json.loads(goqueue(broker, "delayed", "show", "from-cli", slot, "-o", "json"))["value"] == "one"
    assert "is due at 2098" in goqueue(
        broker, "delayed", "reschedule", "from-cli", slot, "--deliver-at", "2098-01-01T00:00:00Z"
    )
    goqueue(broker, "delayed", "now", "from-cli", slot)
    until_values(broker, "from-cli", ["one"])
    [last] = json.loads(goqueue(broker, "delayed", "list", "from-cli", "-o", "json"))
    goqueue(broker, "delayed", "cancel", "from-cli", last["slot"])
    assert "nothing to show" in goqueue(broker, "delayed", "list", "from-cli")
    assert "total" in goqueue(broker, "delayed", "stats")


def test_the_metrics_page_counts_delayed_messages(broker: BrokerProcess) -> None:
    Http(broker.http).post("/topics/counted/messages", {"value": "v", "delay": "1h"})
    page = goqueue_metrics(broker)
    assert 'goqueue_broker_delayed_messages_pending{topic="counted"} 1.0' in page
    assert 'goqueue_broker_delayed_messages_scheduled_total{topic="counted"} 1.0' in page


def goqueue_metrics(broker: BrokerProcess) -> str:
    import urllib.request

    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=30) as page:
        return page.read().decode()
