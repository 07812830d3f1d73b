"""The shipped examples on topics of a test: their files, their data, and what must come out of `clicks`."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess

GAP, LATE = dt.timedelta(minutes=30), dt.timedelta(hours=1)
Session = tuple[str, dt.datetime, int]


def send(broker: BrokerProcess, topic: str, rows: Iterable[dict[str, str]]) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for row in rows:
        producer.produce(topic, key=row["key"], value=row["value"])
    assert producer.flush(20) == 0


def sessions_of(rows: Iterable[dict[str, str]]) -> dict[Session, dt.datetime]:
    """Every session that the clicks make, as (visitor, first click, clicks), with its last click."""
    clicks = {
        row["click_id"]: row for row in map(json.loads, (one["value"] for one in rows if "cut off" not in str(one)))
    }
    times: dict[str, list[dt.datetime]] = {}
    for click in clicks.values():
        times.setdefault(click["visitor"], []).append(dt.datetime.fromisoformat(click["at"]))
    found: dict[Session, dt.datetime] = {}
    for visitor, moments in times.items():
        run: list[dt.datetime] = []
        for at in [*sorted(moments), max(moments) + 2 * GAP]:
            # Spark joins clicks that are exactly the gap apart.
            if run and at - run[-1] > GAP:
                found[visitor, run[0], len(run)] = run[-1]
                run = []
            run.append(at)
    return found


def written_sessions(values: Iterable[bytes]) -> list[Session]:
    """What the example wrote."""
    rows: list[dict[str, Any]] = [json.loads(value) for value in values]
    return [
        (row["visitor"], dt.datetime.fromisoformat(row["window_start"]).replace(tzinfo=None), row["clicks"])
        for row in rows
    ]


def check_sessions(rows: list[dict[str, str]], values: Iterable[bytes]) -> None:
    """Each closed session once, and none that the clicks do not make."""
    every = sessions_of(rows)
    found = written_sessions(values)
    newest = max(every.values())
    # The last batch may close no more than what the batch before it allowed.
    closed = {one for one, last in every.items() if last + GAP < newest - 2 * LATE}
    assert len(found) == len(set(found)), "a session was written twice"
    assert set(found) <= set(every), sorted(set(found) - set(every))[:3]
    assert closed
    assert closed <= set(found), sorted(closed - set(found))[:3]
