"""The image: events add up, and contradictions are refused before they are written."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec import structs

from goqueue.errors import Conflict, PartitionNotFound, TopicExists, TopicNotFound
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    ClusterNamed,
    DeletionFinished,
    PartitionsAdded,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.image import ABSENT, Image
from goqueue.metadata.keys import deletion_key, partition_key, settings_key, topic_key

ONE = Assignment(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


def a_topic(name: str = "orders", number: int = 1, partitions: int = 1) -> Topic:
    return Topic(name, UUID(int=number), partitions)


def created(topic: Topic) -> TopicCreated:
    return TopicCreated(topic, (ONE,) * topic.partition_count)


def image_with(*topics: Topic) -> Image:
    image = Image()
    for revision, topic in enumerate(topics, 1):
        image.apply(created(topic), revision)
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
        image.apply(created(a_topic(number=2)), 9)


def test_an_id_is_never_used_again() -> None:
    image = image_with(a_topic())
    image.apply(TopicDeleted("orders", UUID(int=1)), 9)
    with pytest.raises(Conflict):
        image.apply(created(a_topic("payments", number=1)), 9)


def test_a_deletion_is_remembered_until_its_files_are_gone() -> None:
    image = image_with(a_topic())
    image.apply(TopicDeleted("orders", UUID(int=1)), 9)
    assert image.topic("orders") is None
    assert image.deletions() == {UUID(int=1): "orders"}
    image.apply(DeletionFinished(UUID(int=1)), 9)
    assert image.deletions() == {}


@pytest.mark.parametrize(
    "stale",
    [
        TopicDeleted("orders", UUID(int=1)),
        TopicConfigChanged("orders", UUID(int=1), {}),
        PartitionsAdded("orders", UUID(int=1), 1, (ONE,)),
        AssignmentsChanged("orders", UUID(int=1), {0: ONE}),
    ],
)
def test_an_event_for_a_topic_of_the_same_name_but_another_id_is_refused(stale: object) -> None:
    image = image_with(a_topic(number=2))
    with pytest.raises(TopicNotFound):
        image.apply(stale, 9)  # type: ignore[arg-type]
    assert image.topic("orders") is not None


def test_partitions_are_added_behind_those_that_are_there() -> None:
    image = image_with(a_topic(partitions=2))
    image.apply(PartitionsAdded("orders", UUID(int=1), 2, (ONE,)), 9)
    topic = image.topic("orders")
    assert topic is not None
    assert topic.partition_count == 3
    assert len(image.assignments(UUID(int=1))) == 3
    with pytest.raises(Conflict):
        image.apply(PartitionsAdded("orders", UUID(int=1), 2, (ONE,)), 9)


def test_producer_ids_only_go_up() -> None:
    image = Image()
    image.apply(ProducerIdsReserved(1000), 9)
    with pytest.raises(Conflict):
        image.apply(ProducerIdsReserved(1000), 9)


def test_the_cluster_is_named_once() -> None:
    image = Image()
    image.apply(ClusterNamed("abc"), 9)
    with pytest.raises(Conflict):
        image.apply(ClusterNamed("def"), 9)


def test_what_an_image_gives_out_cannot_change_it() -> None:
    config = {"retention.ms": "1"}
    image = image_with(Topic("orders", UUID(int=1), 1, config=config))
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
    draft.apply(TopicDeleted("orders", UUID(int=1)), 9)
    draft.apply(ProducerIdsReserved(5), 9)
    assert image.topic("orders") is not None
    assert image.next_producer_id == 0
    assert image.deletions() == {}


def test_every_key_has_the_revision_of_the_transaction_that_wrote_it_last() -> None:
    image = image_with(a_topic(partitions=2))
    one = UUID(int=1)
    image.apply(TopicConfigChanged("orders", one, {"retention.ms": "1"}), 5)
    image.apply(AssignmentsChanged("orders", one, {1: Assignment(1, 4, (1, 2), (1,))}), 7)
    image.apply(PartitionsAdded("orders", one, 2, (ONE,)), 8)
    assert image.revision_of(topic_key("orders")) == 8
    assert image.revision_of(settings_key(one)) == 5
    assert [image.revision_of(partition_key(one, number)) for number in range(4)] == [1, 7, 8, ABSENT]
    assert [assignment.partition_epoch for assignment in image.assignments(one)] == [1, 7, 8]
    assert image.revision == 8
    image.apply(TopicDeleted("orders", one), 9)
    assert {image.revision_of(key) for key in (topic_key("orders"), settings_key(one), partition_key(one, 0))} == {
        ABSENT
    }
    assert image.revision_of(deletion_key(one)) == 9
    image.apply(DeletionFinished(one), 10)
    assert image.revision_of(deletion_key(one)) == ABSENT


def test_a_leader_epoch_never_goes_back() -> None:
    image = image_with(a_topic())
    image.apply(AssignmentsChanged("orders", UUID(int=1), {0: Assignment(1, 3, (1,), (1,))}), 2)
    with pytest.raises(Conflict, match="leader epoch 3"):
        image.apply(AssignmentsChanged("orders", UUID(int=1), {0: Assignment(2, 2, (2,), (2,))}), 3)
    with pytest.raises(PartitionNotFound):
        image.apply(AssignmentsChanged("orders", UUID(int=1), {1: ONE}), 3)


def test_partitions_that_are_assigned_alike_share_one_value_also_after_a_change_of_them_all() -> None:
    image = Image()
    image.apply(TopicCreated(Topic("a", UUID(int=1), 1000), (ONE,) * 1000), 1)
    image.apply(PartitionsAdded("a", UUID(int=1), 1000, (ONE,) * 1000), 2)
    assert len({id(one) for one in image.assignments(UUID(int=1))}) == 2
    raised = structs.replace(ONE, leader_epoch=1)
    image.apply(AssignmentsChanged("a", UUID(int=1), dict.fromkeys(range(2000), raised)), 3)
    assert len({id(one) for one in image.assignments(UUID(int=1))}) == 1
    assert image.assignments(UUID(int=1))[1999] == structs.replace(raised, partition_epoch=3)
