"""How rows flow through declared pipelines: shared reads, joined streams, results that change, functions, backfills."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.sinks import TopicSink
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.main import run_until_stopped
from goqueue.pipeline.declared.running.backfill import backfill
from goqueue.pipeline.declared.running.batches import with_keys
from goqueue.pipeline.declared.running.run import PipelineFailed
from goqueue.pipeline.errors import told_by_spark

Row = Mapping[str, Any]


def send(broker: BrokerProcess, topic: str, rows: Iterable[Row], *, at_ms: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for row in rows:
        producer.produce(topic, key=str(row.get("id", "")), value=json.dumps(row), timestamp=at_ms)
    assert producer.flush(20) == 0


class Flow:
    """A pipeline that is run as often as a test likes, each time to the end of what is there."""

    def __init__(self, spark: Any, broker: BrokerProcess, home: Path, **values: Any) -> None:
        self._spark, self._home = spark, home
        head = {"name": "flow", "broker": broker.kafka, "checkpoint": str(home / "state"), "trigger": "available-now"}
        self.pipeline = load_values({**head, **values}, folder=home)

    def run(self) -> list[dict[str, Any]]:
        return run_until_stopped(self.pipeline, self._spark, folder=self._home)


@pytest.fixture
def flow(spark: Any, broker: BrokerProcess, tmp_path: Path) -> Callable[..., Flow]:
    return lambda **values: Flow(spark, broker, tmp_path, **values)


def lake(folder: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    rows: list[dict[str, Any]] = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return rows


PARSE = {"parse": {"name": "opened", "schema": "id BIGINT, town STRING"}}


def test_sinks_share_one_read_and_each_has_every_row_once(
    flow: Callable[..., Flow],
    broker: BrokerProcess,
    topic: Callable[..., str],
    read: Callable[..., Any],
    tmp_path: Path,
) -> None:
    source, copy, bad = topic(2), topic(2), topic(1)
    send(broker, source, ({"id": n, "town": "Bonn" if n % 2 else "Köln"} for n in range(100)))
    shared = flow(
        shared_reads=True,
        dead_letters=bad,
        sources={"events": {"topic": source, "max_per_batch": 40}},
        steps=[PARSE, {"filter": {"name": "bonn", "where": "town = 'Bonn'"}}],
        sinks=[
            {"delta": {"path": str(tmp_path / "all"), "from": "opened"}},
            {"delta": {"name": "some", "path": str(tmp_path / "some"), "from": "bonn"}},
            {"topic": {"topic": copy, "key": "id", "from": "bonn"}},
        ],
    )

    status = shared.run()
    send(broker, source, [{"id": 100, "town": "Bonn"}])
    shared.run()

    assert {row["sink"] for row in status} == {"shared_opened", "dead_letters"}
    assert next(row for row in status if row["sink"] == "shared_opened")["batch"] >= 2
    assert sorted(row["id"] for row in lake(tmp_path / "all")) == list(range(101))
    bonn = [n for n in range(100) if n % 2] + [100]
    assert sorted(row["id"] for row in lake(tmp_path / "some")) == bonn
    assert sorted(json.loads(row.value)["id"] for row in read(copy).collect()) == bonn


def test_a_batch_that_one_of_the_sinks_refused_is_written_again_by_that_one_only(
    flow: Callable[..., Flow],
    broker: BrokerProcess,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, bad = topic(1), topic(1)
    send(broker, source, ({"id": n, "town": "Bonn"} for n in range(10)))
    failures = iter([True])

    def step(name: str, _batch: int) -> None:
        if name == "sink-delta" and next(failures, False):
            raise RuntimeError("the disk of the second sink is full")

    monkeypatch.setattr("goqueue.pipeline.declared.running.batches.reached", step)
    flow(
        shared_reads=True,
        dead_letters=bad,
        sources={"events": {"topic": source}},
        steps=[PARSE],
        sinks=[
            {"delta": {"path": str(tmp_path / "one")}},
            {"delta": {"name": "two", "path": str(tmp_path / "two")}},
        ],
    ).run()

    assert next(failures, None) is None
    for name in ("one", "two"):
        assert sorted(row["id"] for row in lake(tmp_path / name)) == list(range(10))


def test_a_function_gets_every_batch_as_a_table(
    flow: Callable[..., Flow], broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, bad = topic(1), topic(1)
    send(broker, source, ({"id": n, "town": "Bonn"} for n in range(10)))
    (tmp_path / "ranked_batches.py").write_text(
        "from pyspark.sql import Window, functions as F\n"
        "def ranked(frame, number):\n"
        "    # No stream can do this: a rank over all rows.\n"
        "    return frame.withColumn('rank', F.row_number().over(Window.orderBy(F.desc('id')))).filter('rank <= 3')\n"
    )
    flow(
        dead_letters=bad,
        sources={"events": {"topic": source}},
        steps=[
            PARSE,
            {"foreach_batch": {"name": "top", "function": "ranked_batches:ranked"}},
            {"select": {"columns": ["id", "rank"]}},
        ],
        sinks=[{"delta": {"path": str(tmp_path / "top")}}],
    ).run()

    assert sorted((row["rank"], row["id"]) for row in lake(tmp_path / "top")) == [(1, 9), (2, 8), (3, 7)]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_two_streams_are_joined_within_a_time(
    how: str, flow: Callable[..., Flow], broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    orders, payments, bad = topic(1), topic(1), topic(1)
    stamp = "2026-01-01T10:{:02d}:00Z".format
    send(broker, orders, ({"id": n, "ordered": stamp(n)} for n in range(5)))
    # The first is paid at once, the second too late, the third never.
    send(broker, payments, [{"order": 0, "paid": stamp(3)}, {"order": 1, "paid": stamp(50)}])
    joined = flow(
        dead_letters=bad,
        sources={"orders": {"topic": orders}, "payments": {"topic": payments}},
        steps=[
            {"parse": {"name": "o", "from": "orders", "schema": "id BIGINT, ordered TIMESTAMP"}},
            {"watermark": {"name": "ow", "from": "o", "time": "ordered", "delay": "1m"}},
            {"parse": {"name": "p", "from": "payments", "schema": "order BIGINT, paid TIMESTAMP"}},
            {"select": {"name": "renamed", "from": "p", "columns": {"id": "order", "paid": "paid"}}},
            {"watermark": {"name": "pw", "from": "renamed", "time": "paid", "delay": "1m"}},
            {
                "join": {
                    "from": "ow",
                    "with": "pw",
                    "on": ["id"],
                    "how": how,
                    "time": ["ordered", "paid"],
                    "within": "10m",
                }
            },
        ],
        sinks=[{"delta": {"path": str(tmp_path / "joined")}}],
    )
    joined.run()
    # Time goes on in both: what found nothing by now never will.
    send(broker, orders, [{"id": 99, "ordered": "2026-01-02T00:00:00Z"}])
    send(broker, payments, [{"order": 98, "paid": "2026-01-02T00:00:00Z"}])
    joined.run()
    joined.run()

    found = {row["id"]: row["paid"] is not None for row in lake(tmp_path / "joined")}
    expected = {0: True} if how == "inner" else {0: True, 1: False, 2: False, 3: False, 4: False}
    assert found == expected


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_result_that_changes_is_kept_in_a_compacted_topic(
    mode: str,
    flow: Callable[..., Flow],
    broker: BrokerProcess,
    topic: Callable[..., str],
    read: Callable[..., Any],
) -> None:
    source, bad = topic(2), topic(1)
    target = topic(2, **{"cleanup.policy": "compact"})
    counts = flow(
        dead_letters=bad,
        sources={"events": {"topic": source}},
        steps=[
            PARSE,
            # Towns that have grown too large are in the result no more.
            {"sql": {"query": "SELECT town, count(*) AS n FROM opened GROUP BY town HAVING count(*) < 6"}}
            if mode == "complete"
            else {"sql": {"query": "SELECT town, count(*) AS n FROM opened GROUP BY town"}},
        ],
        sinks=[{"topic": {"topic": target, "key": "town", "mode": mode, "delete_when": "n >= 6"}}],
    )

    def table() -> dict[str, int]:
        rows = read(target, **{"as": "table"}).collect()
        return {bytes(row.key).decode(): json.loads(row.value)["n"] for row in rows}

    towns = ["Bonn"] * 5 + ["Köln"] * 2
    send(broker, source, ({"id": n, "town": town} for n, town in enumerate(towns)))
    counts.run()
    assert table() == {"Bonn": 5, "Köln": 2}
    send(broker, source, [{"id": 8, "town": "Bonn"}, {"id": 9, "town": "Ulm"}])
    counts.run()

    assert table() == {"Köln": 2, "Ulm": 1}
    written = Counter(bytes(row.key).decode() for row in read(target).collect())
    # Köln did not change: it was not written again. Bonn has a tombstone.
    assert written == {"Bonn": 2, "Köln": 1, "Ulm": 1}
    assert [row.value for row in read(target).collect() if bytes(row.key) == b"Bonn"][-1] is None


def test_a_row_of_a_changing_result_that_has_no_key_is_told(spark: Any) -> None:
    rows = spark.createDataFrame([(b"Bonn", b"1"), (None, b"2")], "key BINARY, value BINARY")

    with pytest.raises(Exception, match="a row of the result has no key") as caught:
        with_keys(TopicSink(topic="towns", key="town", mode="update"), rows).collect()
    assert told_by_spark(caught.value).endswith(
        "for town is null: filter such rows out, or give them one as in key: coalesce(town, 'none')"
    )
    assert with_keys(TopicSink(topic="towns", key="town", mode="update"), rows.limit(1)).count() == 1


def test_a_backfill_writes_what_lies_before_the_stream_and_nothing_twice(
    spark: Any,
    flow: Callable[..., Flow],
    broker: BrokerProcess,
    topic: Callable[..., str],
    read: Callable[..., Any],
    tmp_path: Path,
) -> None:
    source, copy, bad = topic(2), topic(1), topic(1)
    now_ms = int(time.time() * 1000)
    send(broker, source, ({"id": n, "town": "old"} for n in range(20)), at_ms=now_ms - 100_000)
    send(broker, source, [{"id": "no number"}], at_ms=now_ms - 90_000)
    send(broker, source, ({"id": n, "town": "older"} for n in range(20, 30)), at_ms=now_ms - 50_000)
    values = {
        "dead_letters": bad,
        "sources": {"events": {"topic": source, "start": "latest"}},
        "steps": [PARSE],
        "sinks": [{"delta": {"path": str(tmp_path / "all")}}, {"topic": {"topic": copy, "key": "id"}}],
    }
    stream = flow(**values)
    early = {"from_ms": now_ms - 200_000, "to_ms": now_ms - 70_000}
    with pytest.raises(InvalidRequest, match="it is not known where delta began to read events"):
        backfill(stream.pipeline, None, **early)
    stream.run()
    send(broker, source, ({"id": n, "town": "new"} for n in range(30, 35)))
    stream.run()
    assert sorted(row["id"] for row in lake(tmp_path / "all")) == list(range(30, 35))

    planned = backfill(stream.pipeline, None, **early)
    for _ in range(2):
        # The second time it is the repetition of one that was killed before it could say that it was done.
        done = backfill(stream.pipeline, spark, **early)
    with pytest.raises(InvalidRequest, match="the range overlaps backfill backfill-"):
        backfill(stream.pipeline, spark, from_ms=now_ms - 80_000, to_ms=now_ms)
    # Far beyond the beginning of the stream, where it ends.
    backfill(stream.pipeline, spark, from_ms=now_ms - 70_000, to_ms=now_ms + 1_000_000)
    stream.run()

    assert [row["messages"] for row in planned] == [row["messages"] for row in done] == [21, 21, 21]
    assert sorted(row["id"] for row in lake(tmp_path / "all")) == list(range(35))
    assert sorted(json.loads(row.value)["id"] for row in read(copy).collect()) == list(range(35))
    assert [json.loads(row.value) for row in read(bad).collect()] == [{"id": "no number"}]


def test_what_validation_refuses_is_refused_by_spark_as_well(
    flow: Callable[..., Flow], topic: Callable[..., str]
) -> None:
    """The rule is Spark's: a pipeline that gets past our check, here by a trick, fails with Spark's words."""
    source, bad = topic(1), topic(1)
    counted = flow(
        dead_letters=bad,
        sources={"events": {"topic": source}},
        steps=[PARSE, {"sql": {"name": "counts", "query": "SELECT town, count(*) AS n FROM opened GROUP BY town"}}],
        sinks=[{"topic": {"topic": bad, "key": "town", "mode": "update"}}],
    )
    counted.pipeline.sinks["topic"].mode = "append"  # type: ignore[attr-defined]

    with pytest.raises(PipelineFailed, match="Invalid streaming output mode: append"):
        counted.run()
