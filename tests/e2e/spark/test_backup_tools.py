"""One format, two tools: a backup taken by `goqueue backup` is restored on Spark, and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.test_backup import MESSAGES, messages, positions, produce, restored, silent, source, take_backup

from goqueue.backup import work
from goqueue.backup.local import LocalTasks
from goqueue.pipeline.backup import job

__all__ = ["source"]

pytestmark = pytest.mark.spark
LOCAL = LocalTasks()


def taken_here(broker: BrokerProcess, target: Path) -> str:
    import json
    import urllib.request

    def ends() -> dict[tuple[str, str], int]:
        with urllib.request.urlopen(f"http://{broker.http}/admin/instant") as reply:
            return {(one["directory"], one["segment"]): one["size_bytes"] for one in json.load(reply)["logs"]}

    return str(work.backup(LOCAL, broker.data_dir, target, ask_instant=ends).facts["backup"])


def test_spark_verifies_and_restores_what_the_command_line_took(
    spark: Any, source: BrokerProcess, tmp_path: Path
) -> None:
    name = taken_here(source, tmp_path / "backups")
    before, committed = messages(source), positions(source)

    verified = job.verify(spark, tmp_path / "backups", name, show=silent)
    broker = restored(spark, tmp_path / "backups", name, tmp_path / "target")

    try:
        assert verified.problems == []
        assert len(before) == MESSAGES
        assert messages(broker) == before
        assert positions(broker) == committed
    finally:
        broker.kill()


def test_the_command_line_verifies_and_restores_what_spark_took(
    spark: Any, source: BrokerProcess, tmp_path: Path
) -> None:
    name = take_backup(spark, source, tmp_path / "backups")
    before, committed = messages(source), positions(source)
    broker = BrokerProcess(tmp_path / "target")

    verified = work.verify(LOCAL, tmp_path / "backups", name)
    work.restore(LOCAL, tmp_path / "backups", name, broker.data_dir)

    try:
        broker.start()
        assert verified.problems == []
        assert messages(broker) == before
        assert positions(broker) == committed
    finally:
        broker.kill()


def test_a_chain_of_backups_by_both_tools_is_incremental(spark: Any, source: BrokerProcess, tmp_path: Path) -> None:
    first = take_backup(spark, source, tmp_path / "backups")
    produce(source, 10, b"later")
    second = taken_here(source, tmp_path / "backups")
    produce(source, 10, b"still later")
    third = take_backup(spark, source, tmp_path / "backups")

    rows = {row["backup"]: row["parent"] for row in work.listed(tmp_path / "backups")}
    broker = restored(spark, tmp_path / "backups", third, tmp_path / "target")

    try:
        assert rows == {first: None, second: first, third: second}
        assert messages(broker) == messages(source)
    finally:
        broker.kill()
