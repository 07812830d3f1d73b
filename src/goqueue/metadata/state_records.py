"""Metadata as keyed records: one per topic with its assignments, one per deletion under way, one per counter.

A record holds the whole state of its key, never a change, so a compacted log replays to
the same image. Values are JSON: they are few, small, and worth reading with the eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from uuid import UUID

import msgspec

from goqueue.errors import StorageError
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
from goqueue.metadata.features import distinct, is_moving
from goqueue.metadata.image import Image

StateRecord = tuple[bytes, bytes | None]

# A record as it is found again: with the revision of the commit that wrote it.
StoredRecord = tuple[bytes, bytes | None, int]

_TOPIC = "topic/"
_DELETION = "deletion/"
_FEATURE = "feature/"
_SECURITY = "security/"
_SCHEDULE = "schedule/"
_GROUP = "group/"
_PRODUCER_IDS = b"producer-ids"
_CLUSTER = b"cluster"
_BROKER_DEFAULTS = b"broker-defaults"


# leader, leader epoch, replicas, in-sync replicas
_Row = tuple[int, int, list[int], list[int]]


class _StoredTopic(msgspec.Struct, frozen=True, omit_defaults=True):
    topic_id: UUID
    partitions: list[_Row]
    replication_factor: int
    config: dict[str, str]
    internal: bool
    created_ms: int
    # By partition: eligible, adding, removing. Of those partitions that have any.
    moves: dict[int, tuple[list[int], list[int], list[int]]] = {}


def records_for(event: Event, image: Image) -> list[StateRecord]:
    """The records that make an event durable; `image` is the one after the event."""
    match event:
        case (
            TopicCreated(Topic(name=name))
            | TopicConfigChanged(name=name)
            | PartitionsAdded(name=name)
            | AssignmentsChanged(name=name)
        ):
            topic = image.topic(name)
            if topic is None:
                raise StorageError(f"topic {name!r} is missing from the image that just took it in")
            return [(f"{_TOPIC}{name}".encode(), _encode_topic(topic, image.assignments(topic.topic_id)))]
        case TopicDeleted(name, topic_id):
            return [(f"{_TOPIC}{name}".encode(), None), (f"{_DELETION}{topic_id}".encode(), name.encode())]
        case DeletionFinished(topic_id):
            return [(f"{_DELETION}{topic_id}".encode(), None)]
        case NodeChanged() | SessionChanged() | ControllerChanged():
            raise StorageError(
                f"{type(event).__name__} cannot be committed: this event needs the metadata store of a cluster"
            )
        case _:
            return [_single_record(event)]


def _single_record(
    event: ProducerIdsReserved
    | ClusterNamed
    | FeatureFinalised
    | SecurityChanged
    | ScheduleHomed
    | GroupSettingsChanged
    | BrokerDefaultsChanged,
) -> StateRecord:
    """The record of an event that has one key."""
    match event:
        case ProducerIdsReserved(next_producer_id):
            return _PRODUCER_IDS, str(next_producer_id).encode()
        case ClusterNamed(cluster_id):
            return _CLUSTER, cluster_id.encode()
        case FeatureFinalised(name, level):
            return f"{_FEATURE}{name}".encode(), str(level).encode()
        case SecurityChanged(kind, name, value):
            return f"{_SECURITY}{kind}/{name}".encode(), value
        case ScheduleHomed(name, home):
            return f"{_SCHEDULE}{name}".encode(), None if home is None else msgspec.json.encode(home)
        case GroupSettingsChanged(group, settings):
            return f"{_GROUP}{group}".encode(), None if settings is None else msgspec.json.encode(settings)
        case BrokerDefaultsChanged(defaults):
            return _BROKER_DEFAULTS, msgspec.json.encode(dict(defaults))


def image_of(records: Iterable[StoredRecord]) -> Image:
    """Replay: the last value of each key counts."""
    latest: dict[bytes, tuple[bytes, int]] = {}
    for key, value, revision in records:
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value, revision
    image = Image()
    try:
        # Levels first: they say whether this version may read the rest.
        for key, (value, revision) in sorted(latest.items(), key=lambda item: not _is_feature(item[0])):
            _restore(image, key, value, revision)
    except (msgspec.DecodeError, ValueError) as error:
        raise StorageError(f"a metadata record cannot be read: {error}") from error
    return image


def _is_feature(key: bytes) -> bool:
    return key.startswith(_FEATURE.encode())


def _restore(image: Image, key: bytes, value: bytes, revision: int) -> None:
    name = key.decode()
    if name.startswith(_TOPIC):
        image.apply(_decode_topic(name.removeprefix(_TOPIC), value), revision)
    elif name.startswith(_DELETION):
        image.remember_deletion(UUID(name.removeprefix(_DELETION)), value.decode(), revision)
    elif key == _PRODUCER_IDS:
        image.apply(ProducerIdsReserved(int(value)), revision)
    elif key == _CLUSTER:
        image.apply(ClusterNamed(value.decode()), revision)
    elif key == _BROKER_DEFAULTS:
        image.apply(BrokerDefaultsChanged(msgspec.json.decode(value, type=dict[str, str])), revision)
    elif name.startswith(_FEATURE):
        image.apply(FeatureFinalised(name.removeprefix(_FEATURE), int(value)), revision)
    elif name.startswith(_SCHEDULE):
        home = msgspec.json.decode(value, type=ScheduleHome)
        image.apply(ScheduleHomed(name.removeprefix(_SCHEDULE), home), revision)
    elif name.startswith(_GROUP):
        settings = msgspec.json.decode(value, type=GroupSettings)
        image.apply(GroupSettingsChanged(name.removeprefix(_GROUP), settings), revision)
    elif name.startswith(_SECURITY):
        kind, _, what = name.removeprefix(_SECURITY).partition("/")
        image.apply(SecurityChanged(kind, what, value), revision)
    else:
        # A newer version wrote it. To start without it could serve what it forbids.
        raise StorageError(f"metadata record {name!r} was written by a newer version of GoQueue")


def _encode_topic(topic: Topic, assignments: Sequence[Assignment]) -> bytes:
    return msgspec.json.encode(
        _StoredTopic(
            topic_id=topic.topic_id,
            partitions=_rows(assignments),
            replication_factor=topic.replication_factor,
            config=dict(topic.config),
            internal=topic.internal,
            created_ms=topic.created_ms,
            moves=_moves(assignments) if any(map(is_moving, distinct(assignments))) else {},
        )
    )


def _rows(assignments: Sequence[Assignment]) -> list[_Row]:
    rows: dict[int, _Row] = {
        id(one): (one.leader, one.leader_epoch, list(one.replicas), list(one.isr)) for one in distinct(assignments)
    }
    if len(rows) == 1:
        return list(rows.values()) * len(assignments)
    return [rows[id(one)] for one in assignments]


def _moves(assignments: Sequence[Assignment]) -> dict[int, tuple[list[int], list[int], list[int]]]:
    return {
        number: (list(one.eligible), list(one.adding), list(one.removing))
        for number, one in enumerate(assignments)
        if is_moving(one)
    }


def _decode_topic(name: str, value: bytes) -> TopicCreated:
    stored = msgspec.json.decode(value, type=_StoredTopic)
    topic = Topic(
        name=name,
        topic_id=stored.topic_id,
        partition_count=len(stored.partitions),
        replication_factor=stored.replication_factor,
        config=MappingProxyType(stored.config),
        internal=stored.internal,
        created_ms=stored.created_ms,
    )
    assignments = [
        Assignment(leader, epoch, tuple(replicas), tuple(isr)) for leader, epoch, replicas, isr in stored.partitions
    ]
    for number, (eligible, adding, removing) in stored.moves.items():
        assignments[number] = msgspec.structs.replace(
            assignments[number], eligible=tuple(eligible), adding=tuple(adding), removing=tuple(removing)
        )
    return TopicCreated(topic, tuple(assignments))
