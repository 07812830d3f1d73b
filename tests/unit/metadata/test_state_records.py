"""Metadata as records: whatever happened, the records replay to the same image."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from goqueue.errors import GoQueueError, StorageError, UnsupportedFeatureLevel
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    ClusterNamed,
    DeletionFinished,
    Event,
    PartitionsAdded,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.image import Image
from goqueue.metadata.state_records import StoredRecord, image_of, records_for

NAMES = st.sampled_from(["a", "b", "c.d", "__own"])
IDS = st.integers(1, 6).map(lambda number: UUID(int=number))
ASSIGNMENTS = st.builds(
    Assignment,
    leader=st.integers(0, 3),
    leader_epoch=st.integers(0, 9),
    replicas=st.tuples(st.integers(0, 3)),
    isr=st.tuples(st.integers(0, 3)),
)
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy"]), st.text(max_size=5), max_size=2)
PARTITIONS = st.lists(ASSIGNMENTS, min_size=1, max_size=3).map(tuple)
TOPICS = st.builds(
    Topic,
    name=NAMES,
    topic_id=IDS,
    partition_count=st.just(0),
    replication_factor=st.integers(1, 3),
    config=CONFIGS,
    internal=st.booleans(),
    created_ms=st.integers(0, 2**50),
)


def with_assignments(topic: Topic, assignments: tuple[Assignment, ...]) -> TopicCreated:
    return TopicCreated(replace(topic, partition_count=len(assignments)), assignments)


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(with_assignments, TOPICS, PARTITIONS),
    st.builds(TopicDeleted, NAMES, IDS),
    st.builds(DeletionFinished, IDS),
    st.builds(TopicConfigChanged, NAMES, IDS, CONFIGS),
    st.builds(PartitionsAdded, NAMES, IDS, st.integers(1, 4), PARTITIONS),
    st.builds(AssignmentsChanged, NAMES, IDS, st.dictionaries(st.integers(0, 3), ASSIGNMENTS, max_size=2)),
    st.builds(ProducerIdsReserved, st.integers(0, 10_000)),
    st.builds(ClusterNamed, st.text("abc", min_size=1, max_size=4)),
)


def without_epochs(image: Image, topic_id: UUID) -> list[Assignment]:
    # One record holds a topic with its assignments, so a replay gives all of them the record's revision.
    return [structs.replace(one, partition_epoch=0) for one in image.assignments(topic_id)]


def everything_in(image: Image) -> tuple[object, ...]:
    topics = [(topic, dict(topic.config), without_epochs(image, topic.topic_id)) for topic in image.topics()]
    return topics, image.deletions(), image.next_producer_id, image.cluster_id


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_records_replay_to_the_image_that_wrote_them(events: list[Event]) -> None:
    image = Image()
    records: list[StoredRecord] = []
    for revision, event in enumerate(events, 1):
        draft = image.copy()
        try:
            draft.apply(event, revision)
        except GoQueueError:
            continue
        image = draft
        records += [(key, value, revision) for key, value in records_for(event, image)]
    assert everything_in(image_of(records)) == everything_in(image)
    # Compaction keeps the last record of each key, and drops old tombstones.
    compacted = [item for item in {record[0]: record for record in records}.values() if item[1] is not None]
    assert everything_in(image_of(compacted)) == everything_in(image)


def test_a_record_of_a_newer_version_stops_the_start_instead_of_being_forgotten() -> None:
    with pytest.raises(StorageError, match="newer version"):
        image_of([(b"tenant/acme", b"{}", 1)])


def test_a_level_that_this_version_does_not_know_stops_the_start() -> None:
    with pytest.raises(UnsupportedFeatureLevel, match="level 99, but this version knows level 3"):
        image_of([(b"topic/orders", b"of a shape to come", 1), (b"feature/metadata.version", b"99", 2)])


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"topic_id": "x"}', b"\xff"])
def test_a_topic_that_cannot_be_read_is_an_error_and_not_a_missing_topic(value: bytes) -> None:
    with pytest.raises(StorageError):
        image_of([(b"topic/orders", value, 1)])
