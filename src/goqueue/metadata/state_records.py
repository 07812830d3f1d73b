"""Metadata as keyed records: one per topic, one per deletion under way, one per counter.

A record holds the whole state of its key, never a change, so a compacted log replays to
the same image. Values are JSON: they are few, small, and worth reading with the eye.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from uuid import UUID

import msgspec

from goqueue.errors import StorageError
from goqueue.metadata.image import (
    ClusterNamed,
    DeletionFinished,
    EpochsRaised,
    Event,
    Image,
    PartitionAssignment,
    PartitionsAdded,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)

StateRecord = tuple[bytes, bytes | None]

_TOPIC = "topic/"
_DELETION = "deletion/"
_PRODUCER_IDS = b"producer-ids"
_CLUSTER = b"cluster"


class _StoredTopic(msgspec.Struct, frozen=True):
    topic_id: UUID
    # leader, leader epoch, replicas, in-sync replicas
    partitions: list[tuple[int, int, list[int], list[int]]]
    replication_factor: int
    config: dict[str, str]
    internal: bool
    created_ms: int


def records_for(event: Event, image: Image) -> list[StateRecord]:
    """The records that make an event durable; `image` is the one after the event."""
    match event:
        case (
            TopicCreated(Topic(name=name))
            | TopicConfigChanged(name=name)
            | PartitionsAdded(name=name)
            | EpochsRaised(name=name)
        ):
            topic = image.topic(name)
            if topic is None:
                raise StorageError(f"topic {name!r} is missing from the image that just took it in")
            return [(f"{_TOPIC}{name}".encode(), _encode_topic(topic))]
        case TopicDeleted(name, topic_id):
            return [(f"{_TOPIC}{name}".encode(), None), (f"{_DELETION}{topic_id}".encode(), name.encode())]
        case DeletionFinished(topic_id):
            return [(f"{_DELETION}{topic_id}".encode(), None)]
        case ProducerIdsReserved(next_producer_id):
            return [(_PRODUCER_IDS, str(next_producer_id).encode())]
        case ClusterNamed(cluster_id):
            return [(_CLUSTER, cluster_id.encode())]


def image_of(records: Iterable[StateRecord]) -> Image:
    """Replay: the last value of each key counts."""
    latest: dict[bytes, bytes] = {}
    for key, value in records:
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value
    try:
        return _restored(latest)
    except (msgspec.DecodeError, ValueError) as error:
        raise StorageError(f"a metadata record cannot be read: {error}") from error


def _restored(latest: dict[bytes, bytes]) -> Image:
    topics: list[Topic] = []
    deletions: dict[UUID, str] = {}
    next_producer_id = 0
    cluster_id = ""
    for key, value in latest.items():
        name = key.decode()
        if name.startswith(_TOPIC):
            topics.append(_decode_topic(name.removeprefix(_TOPIC), value))
        elif name.startswith(_DELETION):
            deletions[UUID(name.removeprefix(_DELETION))] = value.decode()
        elif key == _PRODUCER_IDS:
            next_producer_id = int(value)
        elif key == _CLUSTER:
            cluster_id = value.decode()
        else:
            # A newer version wrote it. To start without it could serve what it forbids.
            raise StorageError(f"metadata record {name!r} was written by a newer version of GoQueue")
    return Image.restored(topics, deletions, next_producer_id=next_producer_id, cluster_id=cluster_id)


def _encode_topic(topic: Topic) -> bytes:
    return msgspec.json.encode(
        _StoredTopic(
            topic_id=topic.topic_id,
            partitions=[(one.leader, one.leader_epoch, list(one.replicas), list(one.isr)) for one in topic.partitions],
            replication_factor=topic.replication_factor,
            config=dict(topic.config),
            internal=topic.internal,
            created_ms=topic.created_ms,
        )
    )


def _decode_topic(name: str, value: bytes) -> Topic:
    stored = msgspec.json.decode(value, type=_StoredTopic)
    return Topic(
        name=name,
        topic_id=stored.topic_id,
        partitions=tuple(
            PartitionAssignment(leader, epoch, tuple(replicas), tuple(isr))
            for leader, epoch, replicas, isr in stored.partitions
        ),
        replication_factor=stored.replication_factor,
        config=MappingProxyType(stored.config),
        internal=stored.internal,
        created_ms=stored.created_ms,
    )
