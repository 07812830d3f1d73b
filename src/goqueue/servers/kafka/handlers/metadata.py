"""Metadata: brokers, topics and who leads their partitions. The first question of every client.

Versions 0-13, by name and (10 and later) by topic id. A topic that does not exist is made
when both the client and the broker allow it, and the answer already tells of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from uuid import UUID

from goqueue.errors import GoQueueError, TopicNotFound
from goqueue.ids import is_internal, parse_topic_name
from goqueue.metadata.events import Topic
from goqueue.security.model import Resource
from goqueue.servers.kafka.api import (
    NONE,
    Api,
    Context,
    Message,
    Order,
    Reply,
    error_code,
)

API = Api(key=3, name="Metadata", versions=(0, 13), order=Order.CREATING_READ)

# Kafka's codes.
LEADER_NOT_AVAILABLE = 5

Row = dict[str, object]


def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]:
    """Answer at once, unless a topic must be made first."""
    if _wants_all(context, request):
        return _reply(context, request, [_known(context, topic) for topic in context.services.topics.list()])
    rows = [_found(context, one.name, one.topic_id) for one in request.topics]
    missing = [at for at, row in enumerate(rows) if row is None]
    if not missing:
        return _reply(context, request, [row for row in rows if row is not None])
    return _make_missing(context, request, rows, missing)


def topic_partitions(context: Context, topic: Topic) -> list[Row]:
    """The partitions of a topic and who holds them; one that nobody leads says so, with all that is known."""
    is_alive = context.services.cluster.is_alive
    return [
        {
            "error_code": NONE if one.leader >= 0 else LEADER_NOT_AVAILABLE,
            "partition_index": index,
            "leader_id": one.leader,
            "leader_epoch": one.leader_epoch,
            "replica_nodes": one.replicas,
            "isr_nodes": one.isr,
            "offline_replicas": [node for node in one.replicas if not is_alive(node)],
        }
        for index, one in enumerate(context.services.topics.assignments(topic))
    ]


def _wants_all(context: Context, request: Message) -> bool:
    # Version 0 could not say null, so there an empty list means everything.
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _found(context: Context, name: str | None, topic_id: UUID | None) -> Row | None:
    """The row of a topic that is there, or of an error that is certain; None if it may yet be made."""
    topics = context.services.topics
    if topic_id is not None:
        try:
            return _known(context, topics.by_id(topic_id))
        except GoQueueError as error:
            # Only version 12 and later can say that there is no name.
            return {
                "error_code": error_code(error),
                "topic_id": topic_id,
                "name": None if context.api_version >= 12 else "",
            }
    try:
        topic = topics.find(name or "")
    except GoQueueError as error:
        # The same whether or not there is such a topic.
        return {"error_code": error_code(error), "name": name, "is_internal": is_internal(name or "")}
    return None if topic is None else _known(context, topic)


async def _make_missing(context: Context, request: Message, rows: Sequence[Row | None], missing: list[int]) -> Reply:
    # One at a time: each waits for the disk, but a client asks for many only once.
    made = list(rows)
    for at in missing:
        made[at] = await _made(context, request.topics[at].name or "", allowed=request.allow_auto_topic_creation)
    return _reply(context, request, [row for row in made if row is not None])


async def _made(context: Context, name: str, *, allowed: bool) -> Row:
    try:
        parse_topic_name(name)
        if not allowed or is_internal(name):
            raise TopicNotFound(name)
        return _known(context, await context.services.topics.ensure(name))
    except GoQueueError as error:
        return {"error_code": error_code(error), "name": name, "is_internal": is_internal(name)}


def _known(context: Context, topic: Topic) -> Row:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": topic_partitions(context, topic),
    }


def _with_operations(context: Context, row: Row) -> Row:
    if row.get("error_code"):
        return row
    return {**row, "topic_authorized_operations": context.services.access.operations(Resource.TOPIC, str(row["name"]))}


def _reply(context: Context, request: Message, rows: list[Row]) -> Reply:
    cluster = context.services.cluster
    if request.include_topic_authorized_operations:
        rows = [_with_operations(context, row) for row in rows]
    reply: dict[str, object] = {
        "brokers": [
            {"node_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack} for one in cluster.brokers()
        ],
        "cluster_id": context.services.identity.cluster_id,
        # Any node takes what Kafka's clients send to a controller; those that ask want one that is there.
        "controller_id": cluster.controller(),
        "topics": rows,
    }
    if request.include_cluster_authorized_operations:
        reply["cluster_authorized_operations"] = context.services.access.operations(Resource.CLUSTER)
    return reply
