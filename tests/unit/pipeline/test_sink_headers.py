"""Headers of rows that are written: their own, and those that columns stand for."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

import pyarrow as pa

from goqueue.pipeline.decoding.columns import arrow_schema
from goqueue.pipeline.sink.rows import _header_lists

KINDS = {"headers": "array<struct<key:string,value:binary>>"}
OTHER = ("other", b"x")


def written(headers: list[tuple[str, bytes]], priority: Any) -> Any:
    kind = arrow_schema(["headers"], KINDS).field("headers").type
    rows = pa.array([[{"key": name, "value": value} for name, value in headers]], kind)
    (found,) = _header_lists({"headers": rows, "priority": pa.array([priority])}, 1) or [None]
    return found


@pytest.mark.parametrize("own", [b"1", b"high", b"HIGH"])
def test_a_row_that_is_written_as_it_was_read_has_its_headers_as_they_were(own: bytes) -> None:
    headers = [("goqueue-priority", own), OTHER]

    assert written(headers, 1) == headers


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (2, [OTHER]),
        ("normal", [OTHER]),
        (0, [OTHER, ("goqueue-priority", b"0")]),
        ("Critical", [OTHER, ("goqueue-priority", b"critical")]),
        (None, [("goqueue-priority", b"high"), OTHER]),
    ],
)
def test_a_priority_that_was_changed_takes_the_place_of_that_in_the_headers(priority: Any, expected: Any) -> None:
    assert written([("goqueue-priority", b"high"), OTHER], priority) == expected


def test_a_priority_without_headers_becomes_one_unless_it_is_normal() -> None:
    assert [written([], priority) for priority in (1, 2, "low")] == [
        [("goqueue-priority", b"1")],
        [],
        [("goqueue-priority", b"low")],
    ]
