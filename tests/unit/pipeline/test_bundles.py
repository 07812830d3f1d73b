"""Small pieces of a micro-batch are one task for Spark, as long as nobody said how to cut it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.columns import Bounds
from goqueue.pipeline.options import parse_source_options
from goqueue.pipeline.plan import Task, bundles
from goqueue.records import TopicPartition


def tasks(*sizes: int) -> list[Task]:
    return [Task(TopicPartition("t", number), Bounds(100, 100 + size)) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("given", "sizes", "together"),
    [
        ({}, (300, 300, 400), [[0, 1, 2]]),
        ({}, (3000, 900, 200, 3900), [[0, 1], [2], [3]]),
        ({}, (50_000, 1, 50_000), [[0], [1], [2]]),
        ({}, (), []),
        ({"minPartitions": "2"}, (300, 300), [[0], [1]]),
        ({"maxRecordsPerPartition": "1000"}, (300, 300), [[0], [1]]),
    ],
)
def test_small_tasks_go_together(given, sizes, together):
    options = parse_source_options({"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t", **given})
    found = bundles(options, tasks(*sizes))
    assert [[task.place.partition for task in one.tasks] for one in found] == together
