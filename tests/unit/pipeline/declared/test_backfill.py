"""Backfill: sinks in which a range of the past would be wrong, or there twice, are refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running.backfill import backfill


def planned(home: Path, sink: dict[str, Any]) -> list[dict[str, Any]]:
    values = {"name": "p", "checkpoint": str(home), "sources": {"events": {"topic": "events"}}, "sinks": [sink]}
    return backfill(load_values(values), None, from_ms=0, to_ms=1)


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"parquet": {"path": "out"}}, "files have no memory of what was written"),
        ({"topic": {"topic": "copy", "exactly_once": False}}, "without exactly_once nothing remembers"),
        (
            {
                "delta": {
                    "path": "lake",
                    "mode": "merge",
                    "keys": ["key"],
                    "sequence": "offset",
                    "delete_when": "value IS NULL",
                }
            },
            "rows that the stream has deleted since would be inserted again",
        ),
    ],
)
def test_a_sink_that_a_backfill_would_make_wrong_is_refused(tmp_path: Path, sink: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=f"cannot be filled: {told}"):
        planned(tmp_path, sink)


@pytest.mark.parametrize(
    "sink",
    [
        {"topic": {"topic": "copy"}},
        {"delta": {"path": "lake"}},
        {"delta": {"path": "lake", "mode": "upsert", "keys": ["key"], "sequence": "offset"}},
    ],
)
def test_other_sinks_are_filled_once_their_stream_has_begun(tmp_path: Path, sink: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"it is not known where .* began to read events"):
        planned(tmp_path, sink)
