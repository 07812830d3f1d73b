"""Tasks of one size, over the borders of partitions, as long as nobody said how to cut."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.decoding.columns import Bounds
from goqueue.pipeline.source import plan
from goqueue.pipeline.source.options import parse_source_options
from goqueue.pipeline.source.plan import Range, tasks_for
from goqueue.records import TopicPartition


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan.os, "cpu_count", lambda: 2)


def dealt(sizes: tuple[int, ...], **given: str) -> list[list[tuple[int, int, int]]]:
    """Of each task (partition, start, end) of its pieces; every partition begins at 100."""
    options = parse_source_options({"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t", **given})
    ranges = [Range(TopicPartition("t", number), 100, 100 + size) for number, size in enumerate(sizes)]
    tasks = tasks_for(options, ranges, Bounds())
    return [[(one.place.partition, one.bounds.start, one.bounds.end) for one in task.pieces] for task in tasks]


def test_few_records_of_many_partitions_are_one_task():
    assert dealt((300, 0, 300, 400)) == [[(0, 100, 400), (2, 100, 400), (3, 100, 500)]]


def test_nothing_to_read_is_no_task():
    assert dealt((0, 0)) == []


def test_every_core_gets_a_task_of_the_same_size():
    assert dealt((30_000, 30_000, 30_000)) == [
        [(0, 100, 30_100), (1, 100, 15_100)],
        [(1, 15_100, 30_100), (2, 100, 30_100)],
    ]


def test_a_task_is_not_smaller_than_is_worth_while():
    assert dealt((10_000,)) == [[(0, 100, 10_100)]]
    assert dealt((10_001,)) == [[(0, 100, 5_101)], [(0, 5_101, 10_101)]]


def test_of_very_many_records_the_tasks_are_a_multiple_of_the_cores():
    assert [sum(end - start for _, start, end in task) for task in dealt((3_000_000, 10))] == [750_003] * 3 + [750_001]


@pytest.mark.parametrize("sizes", [(1,), (9_999, 1, 10_001), (70_000, 3, 3, 1_200_345)])
def test_every_record_is_in_one_task(sizes: tuple[int, ...]):
    pieces = sorted(piece for task in dealt(sizes) for piece in task)
    for number, size in enumerate(sizes):
        edges = [(start, end) for partition, start, end in pieces if partition == number]
        assert edges[0][0] == 100
        assert edges[-1][1] == 100 + size
        assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))


def test_who_wants_a_number_of_tasks_gets_one_partition_in_each():
    assert dealt((300, 300), minPartitions="4") == [
        [(0, 100, 250)],
        [(0, 250, 400)],
        [(1, 100, 250)],
        [(1, 250, 400)],
    ]


def test_who_sets_a_limit_gets_tasks_within_it():
    assert dealt((300, 50), maxRecordsPerPartition="200") == [[(0, 100, 250)], [(0, 250, 400)], [(1, 100, 150)]]
    assert len(dealt((300, 300), maxRecordsPerPartition="300", minPartitions="6")) == 6
