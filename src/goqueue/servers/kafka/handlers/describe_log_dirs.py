"""DescribeLogDirs: the data directory and what partitions take in it. Versions 1-5."""

from __future__ import annotations

from goqueue.broker.reading.queries import LogDir
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(key=35, name="DescribeLogDirs", versions=(1, 5))

Row = dict[str, object]


def handle(context: Context, request: Message) -> Reply:
    """Our one directory, with the partitions asked for, or all."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    return {"results": [_row(one, wanted) for one in context.services.queries.log_dirs()]}


def _row(one: LogDir, wanted: set[tuple[str, int]] | None) -> Row:
    topics: dict[str, list[Row]] = {}
    for part in one.partitions:
        if wanted is None or (part.topic, part.partition) in wanted:
            topics.setdefault(part.topic, []).append(
                {"partition_index": part.partition, "partition_size": part.size_bytes}
            )
    return {
        "log_dir": one.path,
        "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
        "total_bytes": one.total_bytes,
        "usable_bytes": one.usable_bytes,
    }
