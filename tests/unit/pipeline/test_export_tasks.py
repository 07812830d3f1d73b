"""Tasks of an export that Spark runs twice, as it does with slow ones and after it has lost an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.pipeline.decoding.columns import Bounds
from goqueue.pipeline.jobs import export as module
from goqueue.pipeline.jobs.export_folder import ExportFolder, sweep
from goqueue.pipeline.source.options import parse_source_options
from goqueue.pipeline.source.plan import Piece
from goqueue.records import TopicPartition

PIECE = Piece(TopicPartition("orders", 0), Bounds(start=0, end=4))
OPTIONS = parse_source_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"})
COLUMNS = ("offset", "timestamp")


class Killed(Exception):
    """Of the task that is told to end because the other was first."""


def rows(meanwhile: Callable[[], object] = lambda: None) -> Callable[..., Iterator[Any]]:
    def read_piece(*_: Any) -> Iterator[Any]:
        for offsets in ([0, 1], [2, 3]):
            stamps = pa.array([0] * 2, pa.timestamp("us", "UTC"))
            yield pa.RecordBatch.from_arrays([pa.array(offsets), stamps], names=list(COLUMNS))
            if offsets[0] == 0:
                meanwhile()

    return read_piece


def test_a_task_that_is_killed_beside_another_leaves_the_file_of_the_other_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ExportFolder(str(tmp_path))
    written: list[dict[str, Any]] = []

    def attempt() -> list[dict[str, Any]]:
        return module._export_piece(PIECE, options=OPTIONS, columns=COLUMNS, folder=folder)

    def other_is_first() -> None:
        monkeypatch.setattr(module, "read_piece", rows())
        written.extend(attempt())
        raise Killed

    monkeypatch.setattr(module, "read_piece", rows(meanwhile=other_is_first))
    with pytest.raises(Killed):
        attempt()

    (file,) = written
    assert pq.read_table(tmp_path / file["path"]).column("offset").to_pylist() == [0, 1, 2, 3]
    assert sweep(folder, written) == 1
    assert [one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*") if one.is_file()] == [file["path"]]
