"""CreateTopics: versions 2-7."""

from __future__ import annotations

from collections import Counter

from goqueue.broker.topics import NewTopic
from goqueue.errors import GoQueueError, InvalidRequest, NotAuthorized
from goqueue.metadata.events import Topic
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, error_code, failed

API = Api(
    key=19,
    name="CreateTopics",
    versions=(2, 7),
    gaps=("A node on its own refuses a replication factor above 1.",),
    order=Order.CHANGE,
)

Row = dict[str, object]


async def handle(context: Context, request: Message) -> Reply:
    """Make the topics one after the other; each has its own result."""
    times = Counter(topic.name for topic in request.topics)
    rows = []
    for name, count in times.items():
        asked = next(topic for topic in request.topics if topic.name == name)
        rows.append(await _create(context, request, asked, is_repeated=count > 1))
    return {"topics": rows}


async def _create(context: Context, request: Message, asked: Message, *, is_repeated: bool) -> Row:
    try:
        if is_repeated:
            raise InvalidRequest(f"topic {asked.name!r} is named more than once", field="name")
        topic = await context.services.topics.create(_new_topic(asked), validate_only=request.validate_only)
    except GoQueueError as error:
        return {"name": asked.name, **failed(error)}
    return {
        "name": topic.name,
        "topic_id": None if request.validate_only else topic.topic_id,
        "num_partitions": topic.partition_count,
        "replication_factor": topic.replication_factor,
        **_configs(context, topic, request),
    }


def _new_topic(asked: Message) -> NewTopic:
    if len({one.name for one in asked.configs}) != len(asked.configs):
        raise InvalidRequest("a setting is given more than once", field="configs")
    if len({one.partition_index for one in asked.assignments}) != len(asked.assignments):
        raise InvalidRequest("a partition is assigned more than once", field="assignments")
    return NewTopic(
        asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        config={one.name: one.value for one in asked.configs},
        assignments={one.partition_index: one.broker_ids for one in asked.assignments} or None,
    )


def _configs(context: Context, topic: Topic, request: Message) -> Row:
    if request.validate_only:
        return {"configs": None}
    try:
        entries = context.services.topics.describe_config(topic.name)
    except NotAuthorized as error:
        return {"configs": None, "topic_config_error_code": error_code(error)}
    return {
        "configs": [
            {
                "name": one.name,
                "value": one.value,
                "read_only": one.read_only,
                "config_source": one.source,
                "is_sensitive": one.sensitive,
            }
            for one in entries
        ]
    }
