"""Topics and their partitions: create, look, change, delete."""

from __future__ import annotations

import msgspec

from goqueue.broker.reading.queries import PartitionOffsets
from goqueue.broker.topics import NewTopic
from goqueue.errors import InvalidRequest
from goqueue.metadata.events import Topic
from goqueue.metadata.settings.topic_config import warnings_of
from goqueue.security.model import Operation, Resource
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.common import (
    AlterTopic,
    CreatedTopic,
    CreateTopic,
    DeletedTopic,
    OffsetRange,
    PartitionList,
    PartitionRow,
    TopicDetails,
    TopicList,
    TopicRow,
    Truncate,
    Truncated,
)
from goqueue.servers.named_partitions import places_of
from goqueue.servers.services import Services

_HOUR_MS = 3_600_000


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to list."""

    internal: bool = False


async def create(services: Services, call: Call) -> Answer:
    """Create a topic."""
    wanted: CreateTopic = call.body
    config = dict(wanted.config)
    _put_retention(config, wanted.retention_hours)
    topic = await services.topics.create(
        NewTopic(wanted.name, wanted.num_partitions, wanted.replication_factor, config)
    )
    reply = CreatedTopic(
        name=topic.name,
        topic_id=str(topic.topic_id),
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        config=dict(topic.config),
        created=True,
        warnings=warnings_of(topic.config),
    )
    return Answer(201, reply, {"Location": f"/topics/{topic.name}"})


async def list_all(services: Services, call: Call) -> TopicList:
    """List the topics."""
    topics = [topic for topic in services.topics.list() if call.query.internal or not topic.internal]
    rows = [TopicRow(name=t.name, partitions=t.partition_count, internal=t.internal) for t in topics]
    return TopicList(topics=[row.name for row in rows], details=rows)


async def show(services: Services, call: Call) -> TopicDetails:
    """Describe a topic."""
    return await _details(services, services.topics.get(call.path["topic"]))


async def ensure(services: Services, call: Call) -> TopicDetails:
    """Make sure that a topic exists, as a first publish would."""
    return await _details(services, await services.topics.ensure(call.path["topic"]))


async def alter(services: Services, call: Call) -> TopicDetails:
    """Change settings or add partitions."""
    name, wanted = call.path["topic"], call.body
    changes = dict(wanted.config)
    _put_retention(changes, wanted.retention_hours)
    # Both are checked before either is done, so a bad request changes nothing.
    if changes:
        await services.topics.alter_config(name, changes, validate_only=True)
    if wanted.num_partitions is not None and wanted.num_partitions != services.topics.get(name).partition_count:
        await services.topics.add_partitions(name, wanted.num_partitions)
    if changes:
        await services.topics.alter_config(name, changes)
    return await _details(services, services.topics.get(name))


async def delete(services: Services, call: Call) -> DeletedTopic:
    """Delete a topic and everything in it."""
    name = call.path["topic"]
    await services.topics.delete(name)
    return DeletedTopic(deleted=True, name=name)


async def partitions(services: Services, call: Call) -> PartitionList:
    """List a topic's partitions."""
    topic = services.topics.get(call.path["topic"])
    rows = []
    places = places_of(services, topic.name, None)
    bounds, sizes = await services.partitions.bounds(places), await services.partitions.sizes(places)
    for at, assignment in zip(places, services.topics.assignments(topic), strict=True):
        span = _range(bounds[at])
        rows.append(
            PartitionRow(
                partition=at.partition,
                leader=assignment.leader,
                leader_epoch=assignment.leader_epoch,
                replicas=list(assignment.replicas),
                isr=list(assignment.isr),
                earliest=span.earliest,
                latest=span.latest,
                size_bytes=sizes[at],
            )
        )
    return PartitionList(topic=topic.name, partitions=rows)


async def truncate(services: Services, call: Call) -> Truncated:
    """Delete the records before an offset."""
    topic, partition = call.path["topic"], partition_index(call)
    earliest = await services.partitions.delete_records(topic, partition, call.body.before_offset)
    return Truncated(topic=topic, partition=partition, earliest=earliest)


def partition_index(call: Call) -> int:
    """The partition in the path."""
    text = call.path["partition"]
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise InvalidRequest(f"partition {text[:40]!r} is not a number", field="partition")
    return int(text)


async def _details(services: Services, topic: Topic) -> TopicDetails:
    places = places_of(services, topic.name, None)
    spans = {str(at.partition): _range(one) for at, one in (await services.partitions.bounds(places)).items()}
    sizes = await services.partitions.sizes(places)
    may = services.access.may(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name)
    # Whoever may describe a topic and not its settings gets the rest.
    entries = services.topics.describe_config(topic.name) if may else []
    return TopicDetails(
        name=topic.name,
        topic_id=str(topic.topic_id),
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        internal=topic.internal,
        config={entry.name: str(entry.value) for entry in entries},
        overrides=dict(topic.config) if may else {},
        total_messages=sum(span.latest - span.earliest for span in spans.values()),
        total_size_bytes=sum(sizes.values()),
        partition_offsets=spans,
        warnings=warnings_of(topic.config),
    )


def _range(bounds: PartitionOffsets) -> OffsetRange:
    return OffsetRange(earliest=bounds.log_start_offset, latest=bounds.high_watermark)


def _put_retention(config: dict[str, str] | dict[str, str | None], hours: int | None) -> None:
    if hours is not None:
        config["retention.ms"] = str(hours * _HOUR_MS)


ROUTES = (
    Route("POST", "/topics", create, "Create a topic", {201: CreatedTopic}, body=CreateTopic, errors=(400, 409)),
    Route("GET", "/topics", list_all, "List topics", {200: TopicList}, query=ListQuery),
    Route("GET", "/topics/{topic}", show, "Describe a topic", {200: TopicDetails}, errors=(400, 404)),
    Route(
        "PUT",
        "/topics/{topic}",
        ensure,
        "Make sure a topic exists",
        {200: TopicDetails},
        errors=(400, 403, 404),
        body_hint="POST /topics creates a topic with partitions and settings of its own, PATCH changes one",
    ),
    Route(
        "PATCH",
        "/topics/{topic}",
        alter,
        "Change a topic",
        {200: TopicDetails},
        body=AlterTopic,
        errors=(400, 403, 404),
    ),
    Route("DELETE", "/topics/{topic}", delete, "Delete a topic", {200: DeletedTopic}, errors=(400, 403, 404)),
    Route("GET", "/topics/{topic}/partitions", partitions, "List partitions", {200: PartitionList}, errors=(400, 404)),
    Route(
        "POST",
        "/topics/{topic}/partitions/{partition}/truncate",
        truncate,
        "Delete old records",
        {200: Truncated},
        body=Truncate,
        errors=(400, 403, 404, 416),
    ),
)
