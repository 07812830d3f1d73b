"""DescribeTopicPartitions: topics page by page, so that many partitions do not need one huge answer. Version 0."""

from __future__ import annotations

from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.metadata.events import Topic
from goqueue.security.model import Resource
from goqueue.servers.kafka.api import Api, Context, Message, Reply, error_code
from goqueue.servers.kafka.handlers.metadata import topic_partitions

API = Api(key=75, name="DescribeTopicPartitions", versions=(0, 0))

PARTITIONS_MAX = 2000

Row = dict[str, object]


def handle(context: Context, request: Message) -> Reply:
    """Topics by name from the cursor on, until the page is full; then where the next page begins."""
    cursor_topic, cursor_partition = _cursor(request)
    room = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    rows: list[Row] = []
    for name in _names(context, request, cursor_topic):
        first = cursor_partition if name == cursor_topic else 0
        try:
            topic = context.services.topics.get(name)
        except GoQueueError as error:
            # A topic that went away between two pages is no error of this page.
            if request.topics:
                rows.append({"error_code": error_code(error), "name": name})
            continue
        if room <= 0:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": first}}
        rows.append(_row(context, topic, first, first + room))
        shown = min(room, topic.partition_count - first)
        room -= max(shown, 0)
        if first + shown < topic.partition_count:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": first + shown}}
    return {"topics": rows}


def _cursor(request: Message) -> tuple[str, int]:
    if request.cursor is None:
        return "", 0
    if request.cursor.partition_index < 0:
        raise InvalidRequest("a page cannot begin before partition 0", field="cursor")
    return request.cursor.topic_name, request.cursor.partition_index


def _names(context: Context, request: Message, first: str) -> list[str]:
    asked = {one.name for one in request.topics} or {topic.name for topic in context.services.topics.list()}
    return sorted(name for name in asked if name >= first)


def _row(context: Context, topic: Topic, first: int, end: int) -> Row:
    # Who may lead besides the in-sync replicas. Null is allowed too, but Java's admin client trips over it.
    others: list[Row] = [
        {"eligible_leader_replicas": one.eligible, "last_known_elr": ()}
        for one in context.services.topics.assignments(topic)[first:end]
    ]
    shown = topic_partitions(context, topic)[first:end]
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": [one | more for one, more in zip(shown, others, strict=True)],
        "topic_authorized_operations": context.services.access.operations(Resource.TOPIC, topic.name),
    }
