"""The image: events add up, and contradictions are refused before they are written."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.errors import Conflict, TopicExists, TopicNotFound
from goqueue.metadata.image import (
    ClusterNamed,
    DeletionFinished,
    Image,
    PartitionAssignment,
    PartitionsAdded,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)

ONE = PartitionAssignment(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


def a_topic(name: str = "orders", number: int = 1, partitions: int = 1) -> Topic:
    return Topic(name, UUID(int=number), (ONE,) * partitions)


def image_with(*topics: Topic) -> Image:
    image = Image()
    for topic in topics:
        image.apply(TopicCreated(topic))
    return image


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_with(a_topic())
    assert image.topic("orders") is image.topic_by_id(UUID(int=1))
    assert image.topic("payments") is None
    assert image.topic_by_id(UUID(int=2)) is None


def test_topics_are_listed_by_name() -> None:
    image = image_with(a_topic("b", 1), a_topic("c", 2), a_topic("a", 3))
    assert [topic.name for topic in image.topics()] == ["a", "b", "c"]


def test_a_name_is_taken_only_once() -> None:
    image = image_with(a_topic())
    with pytest.raises(TopicExists):
        image.apply(TopicCreated(a_topic(number=2)))


def test_an_id_is_never_used_again() -> None:
    image = image_with(a_topic())
    image.apply(TopicDeleted("orders", UUID(int=1)))
    with pytest.raises(Conflict):
        image.apply(TopicCreated(a_topic("payments", number=1)))


def test_a_deletion_is_remembered_until_its_files_are_gone() -> None:
    image = image_with(a_topic())
    image.apply(TopicDeleted("orders", UUID(int=1)))
    assert image.topic("orders") is None
    assert image.deletions() == {UUID(int=1): "orders"}
    image.apply(DeletionFinished(UUID(int=1)))
    assert image.deletions() == {}


@pytest.mark.parametrize(
    "stale",
    [
        TopicDeleted("orders", UUID(int=1)),
        TopicConfigChanged("orders", UUID(int=1), {}),
        PartitionsAdded("orders", UUID(int=1), 1, (ONE,)),
    ],
)
def test_an_event_for_a_topic_of_the_same_name_but_another_id_is_refused(stale: object) -> None:
    image = image_with(a_topic(number=2))
    with pytest.raises(TopicNotFound):
        image.apply(stale)  # type: ignore[arg-type]
    assert image.topic("orders") is not None


def test_partitions_are_added_behind_those_that_are_there() -> None:
    image = image_with(a_topic(partitions=2))
    image.apply(PartitionsAdded("orders", UUID(int=1), 2, (ONE,)))
    topic = image.topic("orders")
    assert topic is not None
    assert len(topic.partitions) == 3
    with pytest.raises(Conflict):
        image.apply(PartitionsAdded("orders", UUID(int=1), 2, (ONE,)))


def test_producer_ids_only_go_up() -> None:
    image = Image()
    image.apply(ProducerIdsReserved(1000))
    with pytest.raises(Conflict):
        image.apply(ProducerIdsReserved(999))


def test_the_cluster_is_named_once() -> None:
    image = Image()
    image.apply(ClusterNamed("abc"))
    with pytest.raises(Conflict):
        image.apply(ClusterNamed("def"))


def test_what_an_image_gives_out_cannot_change_it() -> None:
    config = {"retention.ms": "1"}
    image = image_with(Topic("orders", UUID(int=1), (ONE,), config=config))
    config["retention.ms"] = "2"
    image.topics().clear()
    image.deletions()[UUID(int=9)] = "x"
    topic = image.topic("orders")
    assert topic is not None
    assert topic.config == {"retention.ms": "1"}
    with pytest.raises(TypeError):
        topic.config["retention.ms"] = "3"  # type: ignore[index]
    assert image.deletions() == {}


def test_a_copy_lives_its_own_life() -> None:
    image = image_with(a_topic())
    draft = image.copy()
    draft.apply(TopicDeleted("orders", UUID(int=1)))
    draft.apply(ProducerIdsReserved(5))
    assert image.topic("orders") is not None
    assert image.next_producer_id == 0
    assert image.deletions() == {}
