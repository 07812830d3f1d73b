"""Where a query began stays known, however long it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running import starts as module
from goqueue.pipeline.declared.running.starts import Starts
from goqueue.records import TopicPartition

HERE = TopicPartition("events", 0)


def begun(home: Path, start: str, now: int, monkeypatch: pytest.MonkeyPatch) -> int | None:
    monkeypatch.setattr(module, "first_offsets", lambda _options: {HERE: now})
    values: Any = {"name": "p", "checkpoint": str(home), "sinks": [{"console": {}}]}
    pipeline = load_values({**values, "sources": {"events": {"topic": "events", "start": start}}})
    starts = Starts(pipeline, "console")
    starts.options("events", pipeline.sources["events"], "group")
    known = starts.known("events")
    return None if known is None else known[HERE]


def planned(home: Path, *batches: int) -> None:
    folder = home / "console" / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for batch in batches:
        (folder / str(batch)).write_text("v1")


def test_a_start_that_was_changed_in_the_file_does_not_move_the_beginning_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begun(tmp_path, "latest", 70, monkeypatch) == 70
    # Spark has removed the plans of the first batches by now.
    planned(tmp_path, 100, 101)

    assert begun(tmp_path, "earliest", 3, monkeypatch) == 70


def test_of_a_query_that_began_before_places_were_kept_none_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(tmp_path, 250)

    assert begun(tmp_path, "latest", 70, monkeypatch) is None


def test_before_the_first_batch_the_earliest_place_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begun(tmp_path, "earliest", 3, monkeypatch) == 3
    assert begun(tmp_path, "earliest", 5, monkeypatch) == 5
    assert json.loads((tmp_path / "console.starts.json").read_text())["events"]["events"] == {"0": 5}


def test_partitions_that_are_added_before_the_first_batch_are_read_from_their_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begun(tmp_path, "latest", 70, monkeypatch) == 70
    added = TopicPartition("events", 1)
    asked: list[str] = []

    def first_offsets(options: dict[str, str]) -> dict[TopicPartition, int]:
        asked.append(options["startingOffsets"])
        return {HERE: 3, added: 0}

    monkeypatch.setattr(module, "first_offsets", first_offsets)
    values: Any = {"name": "p", "checkpoint": str(tmp_path), "sinks": [{"console": {}}]}
    pipeline = load_values({**values, "sources": {"events": {"topic": "events", "start": "latest"}}})
    starts = Starts(pipeline, "console")
    options = starts.options("events", pipeline.sources["events"], "group")

    assert asked == ["earliest"]
    assert json.loads(options["startingOffsets"]) == {"events": {"0": 70, "1": 0}}
    assert starts.known("events") == {HERE: 70, added: 0}
