"""Offsets of partitions and of groups: where logs begin and end, and how far a group has read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from goqueue.client.wire.cluster import GROUP, WireClient, by_topic, checked
from goqueue.client.wire.connection import WireConnection
from goqueue.records import Isolation, TopicPartition

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, DESCRIBE_LOG_DIRS = 2, 8, 9, 35
LATEST, EARLIEST = -1, -2


class LogDirectory(NamedTuple):
    """Where a partition lies on its broker, and how large it is there."""

    directory: str
    size_bytes: int


def list_offsets(
    client: WireClient,
    times: Mapping[TopicPartition, int],
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset of each partition at a time in ms, or LATEST or EARLIEST; -1: nothing as young as that."""

    def ask(connection: WireConnection, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": one, "timestamp": times[TopicPartition(topic, one)]} for one in partitions
                ],
            }
            for topic, partitions in by_topic(places).items()
        ]
        request = {"replica_id": -1, "isolation_level": int(isolation), "topics": topics}
        found = {}
        for topic in connection.call(LIST_OFFSETS, 6, request).topics:
            for row in topic.partitions:
                checked(f"offsets of {topic.name}-{row.partition_index}", row.error_code)
                found[TopicPartition(topic.name, row.partition_index)] = row.offset
        return found

    return _ask_leaders(client, times, ask)


def log_directories(client: WireClient, places: Iterable[TopicPartition]) -> dict[TopicPartition, LogDirectory]:
    """Directory and size of each partition that has been written to."""

    def ask(connection: WireConnection, mine: list[TopicPartition]) -> dict[TopicPartition, LogDirectory]:
        topics = [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic(mine).items()]
        found = {}
        for result in connection.call(DESCRIBE_LOG_DIRS, 4, {"topics": topics}).results:
            checked("log directories", result.error_code)
            for topic in result.topics:
                for row in topic.partitions:
                    place = TopicPartition(topic.name, row.partition_index)
                    found[place] = LogDirectory(result.log_dir, row.partition_size)
        return found

    return _ask_leaders(client, places, ask)


def commit_offsets(client: WireClient, group: str, offsets: Mapping[TopicPartition, int], note: str = "") -> None:
    """Write how far a group without members has read."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": one,
                    "committed_offset": offsets[TopicPartition(topic, one)],
                    "committed_metadata": note,
                }
                for one in partitions
            ],
        }
        for topic, partitions in by_topic(offsets).items()
    ]

    def commit() -> None:
        answer = client.coordinator(group, GROUP).call(OFFSET_COMMIT, 8, {"group_id": group, "topics": topics})
        for topic in answer.topics:
            for row in topic.partitions:
                checked(f"offsets of group {group!r} for {topic.name}-{row.partition_index}", row.error_code)

    client.repeat(commit)


def committed_offsets(client: WireClient, group: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """How far the group has read; partitions without an offset are left out."""
    topics = [{"name": topic, "partition_indexes": partitions} for topic, partitions in by_topic(places).items()]

    def fetch() -> dict[TopicPartition, int]:
        request = {"groups": [{"group_id": group, "topics": topics}], "require_stable": True}
        (answer,) = client.coordinator(group, GROUP).call(OFFSET_FETCH, 8, request).groups
        checked(f"offsets of group {group!r}", answer.error_code)
        found = {}
        for topic in answer.topics:
            for row in topic.partitions:
                checked(f"offsets of group {group!r} for {topic.name}-{row.partition_index}", row.error_code)
                if row.committed_offset >= 0:
                    found[TopicPartition(topic.name, row.partition_index)] = row.committed_offset
        return found

    return client.repeat(fetch)


def _ask_leaders(
    client: WireClient,
    places: Iterable[TopicPartition],
    ask: Callable[[WireConnection, list[TopicPartition]], dict[TopicPartition, Any]],
) -> dict[TopicPartition, Any]:
    """One request to each node that leads some of the partitions."""
    asked = list(places)

    def all_of_them() -> dict[TopicPartition, Any]:
        client.topics({place.topic for place in asked})
        leaders: dict[WireConnection, list[TopicPartition]] = defaultdict(list)
        for place in asked:
            leaders[client.leader(place)].append(place)
        found: dict[TopicPartition, Any] = {}
        for connection, mine in leaders.items():
            found.update(ask(connection, mine))
        return found

    return client.repeat(all_of_them)
