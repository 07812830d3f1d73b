"""Groups from outside: list, describe, delete; offsets, lag, resets."""

from __future__ import annotations

from goqueue.errors import InvalidRequest
from goqueue.groups.classic.client_metadata import assigned_partitions, subscribed_topics
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription
from goqueue.groups.offsets.progress import PartitionProgress, Target
from goqueue.groups.service import NewOffset
from goqueue.groups.subscription.topic_partitions import PartitionSet
from goqueue.records import TopicPartition
from goqueue.servers.http.bodies.times import body_time_ms
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.types.groups import (
    CommitBody,
    Committed,
    DeletedGroup,
    Done,
    ForgetBody,
    GroupDetails,
    GroupList,
    GroupOffsets,
    GroupRow,
    GroupsQuery,
    MemberRow,
    OffsetChange,
    OffsetMap,
    OffsetRow,
    PartitionOffset,
    PartitionRef,
    Reset,
    ResetBody,
    ResetTo,
)
from goqueue.servers.services import Services

Description = ClassicDescription | ConsumerDescription


async def list_all(services: Services, call: Call) -> GroupList:
    """List the groups; with `internal`, the broker's own too."""
    rows = []
    for listed in await services.groups.list(internal=call.query.internal):
        described = await services.groups.describe(listed.group)
        rows.append(
            GroupRow(
                id=listed.group,
                mode=str(listed.mode),
                state=str(described.state),
                protocol=str(listed.type),
                members=len(described.members),
                generation=generation_of(described),
                topics=topics_of(described),
            )
        )
    return GroupList(groups=rows)


async def show(services: Services, call: Call) -> GroupDetails:
    """Describe a group, with its lag."""
    described = await services.groups.describe(call.path["group"])
    progress = await services.group_progress.of(described.group)
    return GroupDetails(
        id=described.group,
        mode="stream" if described.queue is None else "queue",
        state=str(described.state),
        protocol="classic" if isinstance(described, ClassicDescription) else str(described.type),
        generation=generation_of(described),
        topics=topics_of(described) or sorted({row.topic for row in progress}),
        assignor=described.protocol if isinstance(described, ClassicDescription) else described.assignor,
        members=_members(services, described),
        offsets=[_row(one) for one in progress],
        sharing=None if described.queue is None or described.queue.sharing is None else str(described.queue.sharing),
        key_ordered=described.queue is not None and described.queue.key_ordered,
    )


async def delete(services: Services, call: Call) -> DeletedGroup:
    """Delete a group that has no members."""
    await services.groups.delete(call.path["group"])
    return DeletedGroup(deleted=True, group=call.path["group"])


async def offsets(services: Services, call: Call) -> GroupOffsets:
    """Committed offsets and lag."""
    group = call.path["group"]
    topics: dict[str, dict[str, PartitionOffset]] = {}
    total = 0
    for one in await services.group_progress.of(group):
        total += one.lag
        topics.setdefault(one.topic, {})[str(one.partition)] = PartitionOffset(
            offset=one.committed, end=one.end, lag=one.lag, lag_seconds=one.lag_seconds, metadata=one.metadata
        )
    return GroupOffsets(group_id=group, topics=topics, total_lag=total)


async def commit(services: Services, call: Call) -> Committed:
    """Commit offsets; all of them or an error that names the first refused."""
    group, body = call.path["group"], call.body
    wanted = [
        NewOffset(at.topic, at.partition, offset, metadata=body.metadata) for at, offset in parse_offsets(body.offsets)
    ]
    if not wanted:
        raise InvalidRequest("there are no offsets to commit", field="offsets")
    problems = await services.groups.commit(group, wanted, member_id=body.member_id, generation=body.generation)
    for problem in problems:
        if problem is not None:
            raise problem
    return Committed(status="committed", group=group, offsets=body.offsets)


async def forget_offsets(services: Services, call: Call) -> Done:
    """Delete offsets of topics that the group does not read."""
    wanted = [TopicPartition(topic, one) for topic, many in call.body.offsets.items() for one in many]
    for problem in await services.groups.delete_offsets(call.path["group"], wanted):
        if problem is not None:
            raise problem
    return Done(status="deleted")


async def reset(services: Services, call: Call) -> Reset:
    """Reset the offsets of a group without members."""
    body: ResetBody = call.body
    changes = await services.group_progress.reset(
        call.path["group"], _target(body.to), topic=body.topic, partitions=body.partitions, dry_run=body.dry_run
    )
    rows = [OffsetChange(topic=c.topic, partition=c.partition, before=c.before, after=c.after) for c in changes]
    return Reset(dry_run=body.dry_run, changes=rows)


def parse_offsets(offsets: OffsetMap) -> list[tuple[TopicPartition, int]]:
    """`{topic: {"partition": offset}}`, with partitions that are numbers."""
    parsed = []
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if not partition.isascii() or not partition.isdigit() or len(partition) > 10:
                raise InvalidRequest(f"partition {partition[:40]!r} is not a number", field=f"offsets.{topic}")
            parsed.append((TopicPartition(topic, int(partition)), offset))
    return parsed


def refs(partitions: frozenset[TopicPartition]) -> list[PartitionRef]:
    """Partitions as JSON, in order."""
    return [PartitionRef(topic=at.topic, partition=at.partition) for at in sorted(partitions)]


def named(services: Services, partitions: PartitionSet) -> frozenset[TopicPartition]:
    """Partitions by their topics' names; those whose topic is gone are gone too."""
    names = {topic.topic_id: topic.name for topic in services.topics.list()}
    return frozenset(TopicPartition(names[one.topic_id], one.partition) for one in partitions if one.topic_id in names)


def generation_of(described: Description) -> int:
    """The generation of either kind of group."""
    return described.generation if isinstance(described, ClassicDescription) else described.epoch


def topics_of(described: Description) -> list[str]:
    """What the members subscribe to by name."""
    topics: set[str] = set()
    if isinstance(described, ClassicDescription):
        for member in described.members:
            topics |= subscribed_topics(member.metadata) or frozenset()
    else:
        for one in described.members:
            topics.update(one.topics)
    return sorted(topics)


def _members(services: Services, described: Description) -> list[MemberRow]:
    if isinstance(described, ClassicDescription):
        return [
            MemberRow(
                id=one.member_id,
                client_id=one.client_id,
                host=one.client_host,
                instance_id=one.instance_id,
                assigned_partitions=refs(assigned_partitions(one.assignment)),
            )
            for one in described.members
        ]
    return [
        MemberRow(
            id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            instance_id=member.instance_id,
            assigned_partitions=refs(named(services, member.assigned)),
            tags=member.tags,
        )
        for member in described.members
    ]


def _row(one: PartitionProgress) -> OffsetRow:
    return OffsetRow(
        topic=one.topic,
        partition=one.partition,
        committed=one.committed,
        end=one.end,
        lag=one.lag,
        lag_seconds=one.lag_seconds,
        metadata=one.metadata,
    )


def _target(to: str | ResetTo) -> Target:
    if isinstance(to, str):
        return Target(earliest=to == "earliest", latest=to == "latest")
    timestamp_ms = None if to.timestamp is None else body_time_ms(to.timestamp, "to.timestamp")
    return Target(timestamp_ms=timestamp_ms, offset=to.offset, shift=to.shift)


ROUTES = (
    Route("GET", "/groups", list_all, "List groups", {200: GroupList}, query=GroupsQuery, errors=(400,)),
    Route("GET", "/groups/{group}", show, "Describe a group", {200: GroupDetails}, errors=(400, 404)),
    Route("DELETE", "/groups/{group}", delete, "Delete a group", {200: DeletedGroup}, errors=(400, 404, 409)),
    Route("GET", "/groups/{group}/offsets", offsets, "Show committed offsets and lag", {200: GroupOffsets}),
    Route(
        "POST",
        "/groups/{group}/offsets",
        commit,
        "Commit offsets",
        {200: Committed},
        body=CommitBody,
        errors=(400, 404, 409),
    ),
    Route(
        "DELETE",
        "/groups/{group}/offsets",
        forget_offsets,
        "Delete committed offsets",
        {200: Done},
        body=ForgetBody,
        errors=(400, 404, 409),
    ),
    Route(
        "POST",
        "/groups/{group}/offsets/reset",
        reset,
        "Reset offsets",
        {200: Reset},
        body=ResetBody,
        errors=(400, 404, 409),
    ),
)
