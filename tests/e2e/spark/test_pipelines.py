"""Declared pipelines on real Spark: the examples, their tests, and runs that are killed."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.example_runs import check_sessions

from goqueue.pipeline.declared.load import load_text, load_values
from goqueue.pipeline.declared.main import run_until_stopped
from goqueue.pipeline.declared.running.run import PipelineRun
from goqueue.pipeline.declared.testing.cases import run_cases
from goqueue.pipeline.examples import EXAMPLES, example_text
from goqueue.pipeline.examples.generate import generate

Read = Callable[..., Any]


def produce(broker: BrokerProcess, topic: str, rows: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for row in rows:
        producer.produce(topic, key=row["key"], value=row["value"])
    assert producer.flush(20) == 0


def example(name: str, broker: BrokerProcess, home: Path, prefix: str) -> Any:
    """An example on topics of this test's own, that ends when it has read all."""
    text = example_text(name).replace("127.0.0.1:9092", broker.kafka).replace("trigger: 1s", "trigger: available-now")
    text = text.replace("trigger: 5s", "trigger: available-now").replace("./lake/events", str(home / "lake"))
    for topic in ("orders", "clicks", "events"):
        text = text.replace(f"topic: {topic}", f"topic: {prefix}{topic}").replace(
            f"dead_letters: {topic}", f"dead_letters: {prefix}{topic}"
        )
    return load_text(f"checkpoint: {home / 'checkpoint'}\n{text}")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_pass_their_own_tests(spark: Any, name: str) -> None:
    outcomes = run_cases(load_text(example_text(name)), spark)

    assert [one.differences for one in outcomes] == [()] * len(outcomes)


def test_clicks_become_sessions_over_several_batches_and_a_restart(
    spark: Any, broker: BrokerProcess, read: Read, topic: Callable[..., str], tmp_path: Path
) -> None:
    prefix = topic() + "."
    with RawClient(broker.kafka) as raw:
        for name in ("clicks", "clicks.sessions", "clicks.bad"):
            raw.create_topic(prefix + name, 1)
    rows = list(generate("clicks", 3000, seed=5))
    pipeline = example("clicks", broker, tmp_path, prefix)
    pipeline.sources["clicks"].max_per_batch = 400
    produce(broker, f"{prefix}clicks", [*rows[:1500], *rows[1400:1500]])
    run_until_stopped(pipeline, spark, folder=tmp_path)
    produce(broker, f"{prefix}clicks", rows[1500:])

    status = run_until_stopped(pipeline, spark, folder=tmp_path)

    assert {one["sink"]: one["batch"] >= 7 for one in status} == {"sessions_out": True, "dead_letters": True}
    check_sessions(rows, [bytes(one.value) for one in read(f"{prefix}clicks.sessions").collect()])


def test_a_case_runs_as_a_stream_too_and_says_what_fails_there(spark: Any) -> None:
    values = {
        "name": "small",
        "sources": {"events": {"topic": "events"}},
        # Validation lets it pass, and rows of a table can be numbered: those of a stream cannot.
        "steps": [{"sql": {"name": "out", "query": "SELECT monotonically_increasing_id() >= 0 AS n FROM events"}}],
        "sinks": [{"console": {}}],
        "tests": [{"name": "numbers", "given": {"events": [{"value": "a"}]}, "expect": {"out": [{"n": True}]}}],
    }

    (outcome,) = run_cases(load_values(values), spark)

    (told,) = outcome.differences
    assert told.startswith("out: as a stream of 3 batches it fails: ")
    assert "monotonically_increasing_id() is not supported with streaming" in told


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_case_may_name_a_step_whose_result_changes(spark: Any, mode: str) -> None:
    towns = [{"town": "Bonn"}, {"town": "Ulm"}, {"town": "Bonn"}]
    counts = [{"town": "Bonn", "n": 2}, {"town": "Ulm", "n": 1}]
    values = {
        "name": "small",
        "sources": {"events": {"topic": "events"}},
        "steps": [
            {"select": {"name": "opened", "columns": {"town": "get_json_object(CAST(value AS STRING), '$.town')"}}},
            {"sql": {"name": "counts", "query": "SELECT town, count(*) AS n FROM opened GROUP BY town"}},
        ],
        "sinks": [{"topic": {"name": "out", "topic": "counts", "key": "town", "mode": mode}}],
        "tests": [
            {"name": "counts", "given": {"events": towns}, "expect": {"opened": towns, "counts": counts, "out": counts}}
        ],
    }

    (outcome,) = run_cases(load_values(values), spark)

    assert outcome.differences == ()


def test_a_case_that_fails_says_what_is_missing_and_what_is_too_much(spark: Any) -> None:
    values = {
        "name": "small",
        "sources": {"events": {"topic": "events"}},
        "steps": [{"select": {"name": "out", "columns": ["CAST(value AS STRING) AS text"]}}],
        "sinks": [{"console": {}}],
        "tests": [{"name": "wrong", "given": {"events": [{"value": "a"}]}, "expect": {"out": [{"text": "b"}]}}],
    }

    (outcome,) = run_cases(load_values(values), spark)

    assert outcome.differences == ('out: missing {"text": "b"}', 'out: unexpected {"text": "a"}')


def test_orders_are_cleaned_and_routed_and_bad_ones_are_kept_with_their_bytes(
    spark: Any, broker: BrokerProcess, read: Read, topic: Callable[..., str], tmp_path: Path
) -> None:
    prefix = topic() + "."
    with RawClient(broker.kafka) as raw:
        for name in ("orders.clean", "orders.big", "orders.bad"):
            raw.create_topic(prefix + name, 1)
    rows = list(generate("orders", 400, bad_share=0.1, seed=3))
    produce(broker, f"{prefix}orders", rows)
    pipeline = example("orders", broker, tmp_path, prefix)

    status = run_until_stopped(pipeline, spark, folder=tmp_path)

    bad = [row for row in rows if row["value"] == "{cut off"]
    letters = read(f"{prefix}orders.bad", includeHeaders="true").collect()
    assert sorted(bytes(one.value).decode() for one in letters) == [row["value"] for row in bad]
    assert {header.key for header in letters[0].headers} >= {"goqueue-error", "goqueue-origin-offset"}
    clean = read(f"{prefix}orders.clean").collect()
    assert len(clean) == len(rows) - len(bad)
    big = [json.loads(bytes(one.value)) for one in read(f"{prefix}orders.big").collect()]
    assert big
    assert all(one["euros"] >= 100 for one in big)
    assert {one["sink"]: one["rows_written"] for one in status}["dead_letters"] == len(bad)
    seen = pipelines(broker)["orders"]
    assert {sink["sink"]: sink["lag"] for sink in seen["sinks"]} == {
        "clean_orders": 0,
        "big_orders": 0,
        "dead_letters": 0,
    }


def pipelines(broker: BrokerProcess) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{broker.http}/pipelines") as reply:
        return {one["name"]: one for one in json.load(reply)["pipelines"]}


def test_a_lake_table_has_every_message_once_although_batches_are_written_again(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    prefix = topic() + "."
    produce(broker, f"{prefix}events", generate("lake", 300, bad_share=0))
    pipeline = example("lake", broker, tmp_path, prefix)
    run_until_stopped(pipeline, spark, folder=tmp_path)
    # As after a kill between the table's commit and Spark's: the batch is not known to be done.
    (tmp_path / "checkpoint" / "table" / "commits" / "0").unlink()
    produce(broker, f"{prefix}events", generate("lake", 50, bad_share=0, seed=2))

    run_until_stopped(pipeline, spark, folder=tmp_path)

    rows = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().to_pylist()
    places = [(row["partition"], row["offset"]) for row in rows]
    assert len(places) == len(set(places)) == 350


@pytest.mark.parametrize(
    ("columns", "told", "steps"),
    [
        (["no_such_column"], "console cannot run: A column, .* `no_such_column` cannot be resolved", 1),
        (["raise_error('sour milk')"], "console failed 5 times in a row: .*sour milk", 40),
    ],
)
def test_a_query_that_falls_is_started_again_unless_that_is_no_use(
    spark: Any,
    broker: BrokerProcess,
    topic: Callable[..., str],
    tmp_path: Path,
    columns: list[str],
    told: str,
    steps: int,
) -> None:
    from goqueue.pipeline.declared.running.run import PipelineFailed

    source = topic()
    produce(broker, source, [{"key": "k", "value": "v"}])
    values = {
        "name": "falls",
        "broker": broker.kafka,
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "available-now",
        "sources": {"events": {"topic": source}},
        "steps": [{"select": {"columns": columns}}],
        "sinks": [{"console": {}}],
    }
    now = [0]
    run = PipelineRun(load_values(values), spark, now_ms=lambda: now[0])

    def run_for_long() -> None:
        for _ in range(steps):
            run.step()
            now[0] += 60_000
            deadline = time.monotonic() + 60
            while spark.streams.active and time.monotonic() < deadline:
                time.sleep(0.05)

    with pytest.raises(PipelineFailed, match=told):
        run_for_long()


def test_a_running_pipeline_is_stopped_by_word(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    import threading

    from goqueue.pipeline.declared.running.run_files import RunFiles

    source = topic()
    produce(broker, source, [{"key": "k", "value": "v"}])
    values = {
        "name": "stoppable",
        "broker": broker.kafka,
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "200ms",
        "sources": {"events": {"topic": source}},
        "sinks": [{"parquet": {"path": str(tmp_path / "out")}}],
    }
    pipeline = load_values(values)
    files = RunFiles(pipeline)
    worker = threading.Thread(target=lambda: run_until_stopped(pipeline, spark, folder=tmp_path))
    worker.start()
    deadline = time.monotonic() + 60
    # While it starts, a pipeline has a status and no sinks yet.
    while (status := files.read()) is None or not status["sinks"] or status["sinks"][0]["rows_written"] < 1:
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
    assert status["running"]

    files.ask_to_stop()
    worker.join(60)

    assert not worker.is_alive()
    final = files.read()
    assert final is not None
    assert final["state"] == "stopped"
