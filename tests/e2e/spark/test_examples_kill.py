"""Every shipped example in small batches, killed with all its processes again and again, and exact at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.example_runs import check_sessions, send
from tests.e2e.spark.kafka_truth import truth

from goqueue.pipeline.examples import EXAMPLES, example_text
from goqueue.pipeline.examples.generate import generate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SOURCES = {"orders": "orders", "clicks": "clicks", "lake": "events"}
TARGETS = {
    "orders": ("orders.clean", "orders.big", "orders.bad"),
    "clicks": ("clicks.sessions", "clicks.bad"),
    "lake": (),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    yield process
    process.kill()


def example_file(name: str, broker: BrokerProcess, folder: Path, trigger: str) -> Path:
    text = example_text(name).replace("127.0.0.1:9092", broker.kafka)
    for given in ("trigger: 1s", "trigger: 5s"):
        text = text.replace(given, f"trigger: {trigger}")
    source = SOURCES[name]
    text = text.replace(f"{{topic: {source}}}", f"{{topic: {source}, max_per_batch: 300}}")
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_exact_after_kills(name: str, broker: BrokerProcess, tmp_path: Path) -> None:
    rows = list(generate(name, 3000, bad_share=0.02 if name != "lake" else 0, seed=7))
    with RawClient(broker.kafka) as raw:
        for topic in (SOURCES[name], *TARGETS[name]):
            raw.create_topic(topic, 1)
    send(broker, SOURCES[name], rows)
    file = example_file(name, broker, tmp_path, "200ms")
    commits = tmp_path / "checkpoints" / name

    def batches() -> int:
        return sum(1 for one in commits.glob("*/commits/[0-9]*"))

    for _ in range(2):
        before = batches()
        command = Command(tmp_path, "pipeline", "run", file)
        try:
            command.until(lambda before=before: batches() >= before + 4)
        finally:
            command.kill()
    run(tmp_path, "pipeline", "run", example_file(name, broker, tmp_path, "available-now"))

    check(name, rows, broker, tmp_path)


def check(name: str, rows: list[dict[str, str]], broker: BrokerProcess, folder: Path) -> None:
    values = {topic: [row[4] or b"" for row in truth(broker.kafka, topic, 1)] for topic in TARGETS[name]}
    bad = sorted(row["value"].encode() for row in rows if row["value"] == "{cut off")
    if name == "orders":
        good = [json.loads(row["value"]) for row in rows if row["value"] != "{cut off"]
        assert sorted(json.loads(one)["id"] for one in values["orders.clean"]) == [one["id"] for one in good]
        big = [one["id"] for one in good if one["amount"] * (0.9 if one["currency"] == "USD" else 1) >= 100]
        assert sorted(json.loads(one)["id"] for one in values["orders.big"]) == big
        assert sorted(values["orders.bad"]) == bad
    elif name == "clicks":
        check_sessions(rows, values["clicks.sessions"])
        assert sorted(values["clicks.bad"]) == bad
    else:
        from deltalake import DeltaTable

        table = DeltaTable(str(folder / "lake" / "events")).to_pyarrow_table().to_pylist()
        assert sorted(row["offset"] for row in table) == list(range(len(rows)))
