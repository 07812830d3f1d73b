"""Metadata as pairs of a key-value store: what an event writes, and which event a change of pairs is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

import msgspec

from goqueue.errors import StorageError
from goqueue.metadata import keys
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    BrokerDefaultsChanged,
    ClusterNamed,
    ControllerChanged,
    DeletionFinished,
    Event,
    FeatureFinalised,
    GroupSettings,
    GroupSettingsChanged,
    NodeChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    ScheduleHome,
    ScheduleHomed,
    SecurityChanged,
    SessionChanged,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.image import Image
from goqueue.metadata.shared.kv import Delete, Put, Write
from goqueue.metadata.shared.kv_members import encode_node, member_changes, not_committed

# Value and revision of every key, without the cluster's prefix.
Pairs = Mapping[str, tuple[bytes, int]]


class _StoredTopic(msgspec.Struct, frozen=True):
    topic_id: UUID
    partition_count: int
    replication_factor: int
    internal: bool
    created_ms: int


class _StoredAssignment(msgspec.Struct, frozen=True, omit_defaults=True):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def fences_of(event: Event) -> list[str]:
    """The keys that must not have changed since the event was found to be possible."""
    match event:
        case TopicCreated(topic):
            return [keys.topic_key(topic.name), keys.deletion_key(topic.topic_id)]
        case TopicDeleted(name) | PartitionsAdded(name):
            return [keys.topic_key(name)]
        case TopicConfigChanged(topic_id=topic_id):
            return [keys.settings_key(topic_id)]
        case AssignmentsChanged(topic_id=topic_id, assignments=assignments):
            return [keys.partition_key(topic_id, partition) for partition in assignments]
        case DeletionFinished():
            return []
        case SessionChanged() | ControllerChanged():
            raise not_committed(event)
        case _:
            # What has one key is fenced by it.
            return [_single_write(event).key]


def writes_of(event: Event, image: Image) -> Iterator[Write]:
    """The writes that make an event durable; `image` is the one after the event."""
    match event:
        case TopicCreated(topic):
            yield Put(keys.topic_key(topic.name), _encode_topic(topic))
            yield Put(keys.settings_key(topic.topic_id), msgspec.json.encode(dict(topic.config)))
            yield from staged_writes(event)
        case TopicDeleted(name, topic_id):
            yield Delete(keys.topic_key(name))
            yield Delete(keys.settings_key(topic_id))
            yield Delete(keys.partitions_of(topic_id), is_prefix=True)
            yield Put(keys.deletion_key(topic_id), name.encode())
        case DeletionFinished(topic_id):
            yield Delete(keys.deletion_key(topic_id))
        case TopicConfigChanged(_, topic_id, config):
            yield Put(keys.settings_key(topic_id), msgspec.json.encode(dict(config)))
        case PartitionsAdded(name):
            grown = image.topic(name)
            if grown is None:
                raise StorageError(f"topic {name!r} is missing from the image that just took it in")
            yield Put(keys.topic_key(name), _encode_topic(grown))
            yield from staged_writes(event)
        case AssignmentsChanged(_, topic_id, changed):
            for partition, assignment in changed.items():
                yield Put(keys.partition_key(topic_id, partition), encode_assignment(assignment))
        case SessionChanged() | ControllerChanged():
            raise not_committed(event)
        case _:
            yield _single_write(event)


def _single_write(
    event: ProducerIdsReserved
    | ClusterNamed
    | FeatureFinalised
    | BrokerDefaultsChanged
    | SecurityChanged
    | ScheduleHomed
    | GroupSettingsChanged
    | NodeChanged,
) -> Write:
    """The write of an event that has one key."""
    match event:
        case ProducerIdsReserved(next_producer_id):
            return Put(keys.PRODUCER_IDS, str(next_producer_id).encode())
        case ClusterNamed(cluster_id):
            return Put(keys.CLUSTER, cluster_id.encode())
        case FeatureFinalised(name, level):
            return Put(keys.feature_key(name), str(level).encode())
        case ScheduleHomed(name, home):
            key = keys.schedule_key(name)
            return Delete(key) if home is None else Put(key, msgspec.json.encode(home))
        case GroupSettingsChanged(group, settings):
            key = keys.group_settings_key(group)
            return Delete(key) if settings is None else Put(key, msgspec.json.encode(settings))
        case SecurityChanged(kind, name, value):
            key = keys.security_key(kind, name)
            return Delete(key) if value is None else Put(key, value)
        case BrokerDefaultsChanged(defaults):
            return Put(keys.BROKER_DEFAULTS, msgspec.json.encode(dict(defaults)))
        case NodeChanged(node_id, node):
            return Delete(keys.node_key(node_id)) if node is None else Put(keys.node_key(node_id), encode_node(node))


def staged_writes(event: TopicCreated | PartitionsAdded) -> list[Write]:
    """The assignments of partitions that become visible with the topic's key, and may be written before it."""
    first, topic_id = (0, event.topic.topic_id) if isinstance(event, TopicCreated) else (event.first, event.topic_id)
    return [
        Put(keys.partition_key(topic_id, number), encode_assignment(one))
        for number, one in enumerate(event.assignments, first)
    ]


def changes(image: Image, pairs: Pairs, touched: Iterable[str]) -> Iterator[Event]:
    """What became of the image when these keys changed; each event is to be applied before the next is asked for."""
    touched = list(touched)
    # Levels first: they say whether this version may read the rest.
    for key in touched:
        if key.startswith(keys.FEATURES):
            yield FeatureFinalised(key.removeprefix(keys.FEATURES), int(_value(pairs, key)))
    yield from member_changes(image, pairs, touched)
    if keys.PRODUCER_IDS in touched and int(_value(pairs, keys.PRODUCER_IDS)) > image.next_producer_id:
        yield ProducerIdsReserved(int(_value(pairs, keys.PRODUCER_IDS)))
    if keys.CLUSTER in touched and not image.cluster_id:
        yield ClusterNamed(_value(pairs, keys.CLUSTER).decode())
    if keys.BROKER_DEFAULTS in touched:
        defaults = msgspec.json.decode(_value(pairs, keys.BROKER_DEFAULTS), type=dict[str, str])
        if defaults != image.broker_defaults:
            yield BrokerDefaultsChanged(defaults)
    for name, numbers in sorted(_touched_topics(image, touched).items()):
        yield from _topic_changes(image, pairs, name, numbers)
    yield from _security_changes(pairs, touched)
    yield from _schedule_changes(pairs, touched)
    yield from _group_changes(pairs, touched)
    for key in touched:
        if not key.startswith(keys.DELETIONS):
            continue
        topic_id, found = UUID(key.removeprefix(keys.DELETIONS)), pairs.get(key)
        if found is None and topic_id in image.deletions():
            yield DeletionFinished(topic_id)
        elif found is not None and topic_id not in image.deletions():
            # Created and deleted since the image was read, or deleted before it was.
            image.remember_deletion(topic_id, found[0].decode(), found[1])


def _security_changes(pairs: Pairs, touched: Iterable[str]) -> Iterator[Event]:
    for key in touched:
        if key.startswith(keys.SECURITY):
            held = pairs.get(key)
            yield SecurityChanged(*keys.parse_security_key(key), None if held is None else held[0])


def _schedule_changes(pairs: Pairs, touched: Iterable[str]) -> Iterator[Event]:
    for key in touched:
        if key.startswith(keys.SCHEDULES):
            held = pairs.get(key)
            home = None if held is None else msgspec.json.decode(held[0], type=ScheduleHome)
            yield ScheduleHomed(key.removeprefix(keys.SCHEDULES), home)


def _group_changes(pairs: Pairs, touched: Iterable[str]) -> Iterator[Event]:
    for key in touched:
        if key.startswith(keys.GROUP_SETTINGS):
            held = pairs.get(key)
            settings = None if held is None else msgspec.json.decode(held[0], type=GroupSettings)
            yield GroupSettingsChanged(key.removeprefix(keys.GROUP_SETTINGS), settings)


def _touched_topics(image: Image, touched: Iterable[str]) -> dict[str, list[int]]:
    """The names of topics that may have changed, each with the partitions that have."""
    topics: dict[str, list[int]] = {}
    for key in touched:
        if key.startswith(keys.TOPICS):
            topics.setdefault(key.removeprefix(keys.TOPICS), [])
        elif key.startswith(keys.SETTINGS):
            known = image.topic_by_id(UUID(key.removeprefix(keys.SETTINGS)))
            if known is not None:
                topics.setdefault(known.name, [])
        elif key.startswith(keys.PARTITIONS):
            topic_id, partition = keys.parse_partition_key(key)
            known = image.topic_by_id(topic_id)
            # Of a topic that nobody knows: staged, and not visible before the topic is.
            if known is not None:
                topics.setdefault(known.name, []).append(partition)
    return topics


def _topic_changes(image: Image, pairs: Pairs, name: str, numbers: list[int]) -> Iterator[Event]:
    before, after = image.topic(name), _decode_topic(pairs, name)
    if before is not None and (after is None or after.topic_id != before.topic_id):
        yield TopicDeleted(name, before.topic_id)
        if keys.deletion_key(before.topic_id) not in pairs:
            yield DeletionFinished(before.topic_id)
        before = None
    if after is None:
        return
    topic_id = after.topic_id
    if before is None:
        yield TopicCreated(after, _decode_assignments(pairs, topic_id, range(after.partition_count)))
        return
    if image.revision_of(keys.settings_key(topic_id)) != pairs[keys.settings_key(topic_id)][1]:
        yield TopicConfigChanged(name, topic_id, after.config)
    changed = [
        number
        for number in sorted(numbers)
        if number < before.partition_count
        and image.revision_of(key := keys.partition_key(topic_id, number)) != pairs[key][1]
    ]
    if changed:
        assignments = _decode_assignments(pairs, topic_id, changed)
        yield AssignmentsChanged(name, topic_id, dict(zip(changed, assignments, strict=True)))
    if after.partition_count > before.partition_count:
        added = range(before.partition_count, after.partition_count)
        yield PartitionsAdded(name, topic_id, before.partition_count, _decode_assignments(pairs, topic_id, added))


def _encode_topic(topic: Topic) -> bytes:
    return msgspec.json.encode(
        _StoredTopic(topic.topic_id, topic.partition_count, topic.replication_factor, topic.internal, topic.created_ms)
    )


def _decode_topic(pairs: Pairs, name: str) -> Topic | None:
    found = pairs.get(keys.topic_key(name))
    if found is None:
        return None
    stored = msgspec.json.decode(found[0], type=_StoredTopic)
    config = msgspec.json.decode(_value(pairs, keys.settings_key(stored.topic_id)), type=dict[str, str])
    topic = Topic(name, stored.topic_id, stored.partition_count, stored.replication_factor)
    return replace(topic, config=MappingProxyType(config), internal=stored.internal, created_ms=stored.created_ms)


def encode_assignment(one: Assignment) -> bytes:
    """An assignment's value."""
    return msgspec.json.encode(
        _StoredAssignment(one.leader, one.leader_epoch, one.replicas, one.isr, one.eligible, one.adding, one.removing)
    )


def _decode_assignments(pairs: Pairs, topic_id: UUID, numbers: Iterable[int]) -> tuple[Assignment, ...]:
    return tuple(_decode_assignment(pairs, keys.partition_key(topic_id, number)) for number in numbers)


def decode_stored_assignment(value: bytes, revision: int = 0) -> Assignment:
    """The assignment of such a value, which was written at this revision."""
    stored = msgspec.json.decode(value, type=_StoredAssignment)
    return Assignment(
        stored.leader,
        stored.leader_epoch,
        stored.replicas,
        stored.isr,
        stored.eligible,
        stored.adding,
        stored.removing,
        partition_epoch=revision,
    )


def _decode_assignment(pairs: Pairs, key: str) -> Assignment:
    return decode_stored_assignment(_value(pairs, key), pairs[key][1])


def _value(pairs: Pairs, key: str) -> bytes:
    try:
        return pairs[key][0]
    except KeyError:
        raise StorageError(f"metadata key {key!r} is missing") from None
