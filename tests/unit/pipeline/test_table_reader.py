"""A topic as a table, whose partition is read twice: what compaction removes in between is missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.decoding.columns import Bounds  # noqa: E402
from goqueue.pipeline.errors import PipelineError  # noqa: E402
from goqueue.pipeline.source import table_reader  # noqa: E402
from goqueue.pipeline.source.options import parse_source_options  # noqa: E402
from goqueue.pipeline.source.plan import Piece  # noqa: E402
from goqueue.pipeline.source.table_reader import TableReader, TableTask  # noqa: E402
from goqueue.records import TopicPartition  # noqa: E402

RECORDS = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None)]


def read(monkeypatch: pytest.MonkeyPatch, *, removed_meanwhile: int | None = None) -> list[dict[str, Any]]:
    """The rows of a table; one record is removed by compaction between the two reads."""
    gone: set[int | None] = set()

    def read_piece(_options: Any, piece: Piece, columns: Any, _client: Any) -> Iterator[Any]:
        kept = [
            {"key": key, "value": value, "offset": at}
            for at, (key, value) in enumerate(RECORDS)
            if at not in gone and at >= piece.bounds.start
        ]
        kinds = {"key": pa.binary(), "value": pa.binary(), "offset": pa.int64()}
        yield pa.RecordBatch.from_pylist(kept, pa.schema([(name, kinds[name]) for name in columns]))
        gone.add(removed_meanwhile)

    monkeypatch.setattr(table_reader, "read_piece", read_piece)
    reader = TableReader(parse_source_options({"path": "/nowhere", "subscribe": "t", "as": "table"}), ("key", "value"))
    task = TableTask((Piece(TopicPartition("t", 0), Bounds(start=0, end=4)),))
    return [row for batch in reader.read(task) for row in batch.to_pylist()]


def test_the_latest_value_of_each_key_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, removed_meanwhile=0) == [{"key": b"b", "value": b"1"}, {"key": b"a", "value": b"2"}]


def test_a_key_whose_record_is_compacted_meanwhile_is_an_error_and_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PipelineError, match="t-0: compaction removed 1 records while they were read: read it again"):
        read(monkeypatch, removed_meanwhile=1)


@pytest.mark.parametrize(("starting", "first"), [(None, 700), ("earliest", 700), ('{"t": {"0": 5}}', 5)])
def test_an_open_table_begins_where_its_partition_does_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch, starting: str | None, first: int
) -> None:
    read: list[Bounds] = []

    def read_piece(_options: Any, piece: Piece, _columns: Any, _client: Any) -> Iterator[Any]:
        read.append(piece.bounds)
        return iter(())

    def list_offsets(_client: Any, times: dict[TopicPartition, int], **_: Any) -> dict[TopicPartition, int]:
        return {place: 700 if time_ms == table_reader.EARLIEST_TIME else 900 for place, time_ms in times.items()}

    monkeypatch.setattr(table_reader, "read_piece", read_piece)
    monkeypatch.setattr(table_reader, "list_offsets", list_offsets)
    monkeypatch.setattr(table_reader, "open_client", lambda _options: nullcontext())
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "as": "table"}
    given |= {} if starting is None else {"startingOffsets": starting}

    planned_long_ago = TableTask((Piece(TopicPartition("t", 0), Bounds(start=5, end=10)),), is_open=True)
    list(TableReader(parse_source_options(given), ("key", "value")).read(planned_long_ago))

    assert (read[0].start, read[0].end) == (first, 900)
