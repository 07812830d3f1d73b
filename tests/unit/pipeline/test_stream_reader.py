"""Where a stream reads on when its topics are not as they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.errors import DataLost
from goqueue.pipeline.source.options import parse_source_options
from goqueue.pipeline.source.stream_reader import StreamReader
from goqueue.records import TopicPartition

GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
READ, ADDED = TopicPartition("orders", 0), TopicPartition("orders", 1)


class World:
    """A catalogue in memory: where each partition begins and ends."""

    def __init__(self, **logs: dict[int, tuple[int, int]]) -> None:
        self.logs = {TopicPartition(topic, one): log for topic, logs_ in logs.items() for one, log in logs_.items()}

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place in self.logs:
            found.setdefault(place.topic, []).append(place.partition)
        return found

    def topic_ids(self) -> dict[str, str]:
        return {place.topic: f"id of {place.topic}" for place in self.logs}

    def earliest(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.logs[place][0] for place in places}

    def latest(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.logs[place][1] for place in places}


def stream(world: World, **options: str) -> StreamReader:
    reader = StreamReader(parse_source_options({**GIVEN, **options}), ["offset"])
    reader._catalogue = world  # type: ignore[assignment]  # it asks for no more
    return reader


def ranges(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> dict[TopicPartition, tuple[int, int]]:
    pieces = [piece for task in reader.partitions(start, end) for piece in task.pieces]
    return {piece.place: (piece.bounds.start, piece.bounds.end) for piece in pieces}


def test_a_partition_that_was_added_is_read_from_its_beginning() -> None:
    reader = stream(World(orders={0: (4, 9), 1: (0, 3)}))

    assert ranges(reader, {"orders": {"0": 7}}, reader.latestOffset({"orders": {"0": 7}})) == {
        READ: (7, 9),
        ADDED: (0, 3),
    }


def test_what_retention_took_from_an_added_partition_before_it_was_seen_is_lost_data() -> None:
    world = World(orders={0: (4, 9), 1: (2, 3)})

    with pytest.raises(DataLost, match="orders-1, which was added to the topic: offsets 0 to 1 are gone"):
        stream(world).latestOffset({"orders": {"0": 7}})
    passing = stream(world, failOnDataLoss="false")
    assert ranges(passing, {"orders": {"0": 7}}, passing.latestOffset({"orders": {"0": 7}}))[ADDED] == (2, 3)


def test_what_retention_took_of_a_batch_that_runs_again_is_lost_data_in_an_added_partition_too() -> None:
    later = stream(World(orders={0: (4, 9), 1: (3, 3)}))

    with pytest.raises(DataLost, match="orders-1, which was added to the topic: offsets 0 to 2 are gone"):
        later.partitions({"orders": {"0": 7}}, {"orders": {"0": 9, "1": 3}})


def test_a_topic_that_a_stream_has_not_read_begins_with_what_it_has() -> None:
    reader = stream(World(orders={0: (4, 9)}, bills={0: (5, 6)}), subscribe="orders,bills")

    end = reader.latestOffset({"orders": {"0": 7}})

    assert ranges(reader, {"orders": {"0": 7}}, end)[TopicPartition("bills", 0)] == (5, 6)


def test_a_log_that_begins_behind_an_open_transaction_has_lost_nothing() -> None:
    # Records were deleted up to 10; a transaction that is open since 5 holds a committed reader back.
    reader = stream(World(orders={0: (10, 5)}))
    start = {"orders": {"0": 10}}

    assert reader.latestOffset(start) == start

    reader = stream(World(orders={0: (0, 5)}))
    with pytest.raises(DataLost, match="orders-0: offsets 5 to 9 are gone"):
        reader.latestOffset(start)
