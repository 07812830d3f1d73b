"""Every bulk job as `goqueue jobs` runs it: exit code, report as JSON and as a page, and a dry run that writes nothing.

The commands run in this process, on the session that all tests share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.kafka_truth import truth
from typer.testing import CliRunner

import goqueue.pipeline
from goqueue.cli.main import app

Jobs = Callable[..., dict[str, Any]]
TIMES = ("--from", "2026-01-01T00:00:20Z", "--to", "2026-01-01T00:00:40Z")
START_MS = 1_767_225_600_000


@pytest.fixture
def jobs(spark: Any, broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Run a job; its report, as it was printed and as it was kept."""

    @contextmanager
    def shared(*_: object, **__: object) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(goqueue.pipeline, "session", shared)
    monkeypatch.setenv("GOQUEUE_SERVER", f"http://{broker.http}")

    def run(*command: object, exit_code: int = 0) -> dict[str, Any]:
        folder = tmp_path / "report"
        words = ["jobs", *map(str, command), "--report", str(folder), "-o", "json"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == exit_code, result.output
        printed = json.loads(result.stdout)
        assert json.loads((folder / "report.json").read_text()) == printed
        page = (folder / "report.html").read_text()
        assert f"goqueue {command[0]}" in page
        return {**printed, "pictures": page.count("<svg")}

    return run


@pytest.fixture
def filled(broker: BrokerProcess, topic: Callable[..., str]) -> str:
    """Sixty messages, a second apart, in two partitions."""
    name = topic(2, **{"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(60):
        producer.produce(
            name, key=f"k{number % 4}", value=f"v{number}", partition=number % 2, timestamp=START_MS + 1000 * number
        )
    assert producer.flush(20) == 0
    return name


def values(broker: BrokerProcess, topic: str, partitions: int = 2) -> list[bytes]:
    return [row[4] for row in sorted(truth(broker.kafka, topic, partitions))]


@pytest.mark.parametrize("lake", ["parquet", "delta", "iceberg"])
def test_export(jobs: Jobs, broker: BrokerProcess, filled: str, tmp_path: Path, lake: str) -> None:
    catalog = [f"uri=sqlite:///{tmp_path}/catalog.db", f"warehouse=file://{tmp_path}/house", "type=sql"]
    command = ["export", filled, "--to", tmp_path / "out", "--format", lake, "--broker", broker.kafka]
    command += [word for one in catalog for word in ("--catalog", one)] if lake == "iceberg" else []

    planned = jobs(*command, "--dry-run")
    assert planned["dry_run"]
    assert sum(row["to"] - row["from"] for row in planned["tables"]["Ranges"]) == 60
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "catalog.db").exists()

    done = jobs(*command)
    assert (done["ok"], done["rows"], done["format"]) == (True, 60, lake)
    assert done["pictures"] == 1
    read = [
        row["value"]
        for file in done["tables"]["Files"]
        for row in pq.ParquetFile(tmp_path / "out" / file["path"]).read(["value"]).to_pylist()
    ]
    assert sorted(read) == sorted(values(broker, filled))


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_import(jobs: Jobs, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path, kind: str) -> None:
    rows = [{"user": f"u{number % 3}", "n": number} for number in range(30)]
    # Two files: the order of their names is the order of their rows.
    for part in (0, 1):
        file = tmp_path / "in" / f"part-{part}.{kind}"
        file.parent.mkdir(exist_ok=True)
        mine = rows[part * 20 : part * 20 + 20]
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(mine), file)
        elif kind == "json":
            file.write_text("\n".join(json.dumps(row) for row in mine))
        else:
            file.write_text("user,n\n" + "\n".join(f"{row['user']},{row['n']}" for row in mine))
    target = topic(2)
    command = ["import", tmp_path / "in", target, "--format", kind, "--key", "user", "--broker", broker.kafka]

    planned = jobs(*command, "--dry-run")
    assert planned["rows"] == 30
    assert planned["tables"]["First messages"][0]["key"].startswith("u")
    assert values(broker, target) == []

    done = jobs(*command)
    assert (done["ok"], done["rows"], done["topic"], done["pictures"]) == (True, 30, target, 1)
    by_user: dict[str, list[int]] = {}
    for value in values(broker, target):
        row = json.loads(value)
        by_user.setdefault(row["user"], []).append(int(row["n"]))
    assert by_user == {f"u{user}": list(range(user, 30, 3)) for user in range(3)}


def test_replay(jobs: Jobs, broker: BrokerProcess, filled: str, topic: Callable[..., str]) -> None:
    target = topic(2, **{"retention.ms": "-1"})
    command = ["replay", filled, target, *TIMES, "--broker", broker.kafka]

    planned = jobs(*command, "--dry-run")
    assert planned["messages"] == 20
    assert values(broker, target) == []

    done = jobs(*command, "--speed", "1000")
    assert (done["ok"], done["messages"], done["pictures"]) == (True, 20, 1)
    assert values(broker, target) == [b"v%d" % number for part in (0, 1) for number in range(20 + part, 40, 2)]


def test_backup_verify_and_restore(jobs: Jobs, broker: BrokerProcess, filled: str, tmp_path: Path) -> None:
    store, home = tmp_path / "store", tmp_path / "restored"
    command = ["backup", "--data-dir", broker.data_dir, "--to", store]

    planned = jobs(*command, "--dry-run")
    assert planned["bytes_to_read"] > 0
    assert not store.exists()

    taken = jobs(*command)
    assert {row["topic"] for row in taken["tables"]["Topics"]} >= {filled}
    assert (taken["ok"], taken["broker"], taken["pictures"]) == (True, "running", 1)
    assert jobs("verify", "--from", store)["backup"] == taken["backup"]

    command = ["restore", "--from", store, "--data-dir", home / "data"]
    assert jobs(*command, "--dry-run")["dry_run"]
    assert not home.exists()
    assert jobs(*command)["bytes"] == taken["bytes"]
    copy = BrokerProcess(home).start()
    try:
        assert truth(copy.kafka, filled, 2) == truth(broker.kafka, filled, 2)
    finally:
        copy.kill()


def test_verify_of_a_backup_with_a_flipped_bit_ends_with_one(
    jobs: Jobs, broker: BrokerProcess, filled: str, tmp_path: Path
) -> None:
    jobs("backup", "--data-dir", broker.data_dir, "--to", tmp_path)
    manifest = next((tmp_path / "backups").glob("*.json"))
    file = next(one for one in json.loads(manifest.read_text())["files"] if f"/{filled}/" in one["path"])
    stored = tmp_path / "objects" / file["hash"][:2] / file["hash"]
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)

    found = jobs("verify", "--from", tmp_path, exit_code=1)

    assert found["ok"] is False
    assert file["path"] in found["problems"][0]


def test_audit(jobs: Jobs, broker: BrokerProcess, filled: str) -> None:
    found = jobs("audit", filled, "--broker", broker.kafka)

    assert (found["ok"], found["messages"], found["offset_gaps"], found["distinct_keys"]) == (True, 60, 0, 4)
    assert found["pictures"] == 3


def test_dlq_report(jobs: Jobs, broker: BrokerProcess, topic: Callable[..., str]) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(5):
        reason = b"timeout" if number else b"bad address"
        producer.produce(name, value=f"letter {number}", headers=[("goqueue-dlq-reason", reason)])
    assert producer.flush(20) == 0

    found = jobs("dlq-report", name, "--broker", broker.kafka)

    assert [(row["reason"], row["messages"]) for row in found["tables"]["Reasons"]] == [
        ("timeout", 4),
        ("bad address", 1),
    ]
    assert found["pictures"] == 2
