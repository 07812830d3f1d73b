"""Where new partitions live: leaders and copies spread, racks first, the living before the dead."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from goqueue.cluster.control.placement import ClusterPlacement, Load
from goqueue.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from goqueue.metadata.events import Node, NodeChanged, SessionChanged, Topic, TopicCreated
from goqueue.metadata.image import Image


def image_of(*nodes: int, dead: tuple[int, ...] = (), racks: dict[int, str] | None = None) -> Image:
    image = Image()
    for number in nodes:
        node = Node(number, UUID(int=number), broker_epoch=7, fenced=False, rack=(racks or {}).get(number, ""))
        image.apply(NodeChanged(number, node), 1)
        if number not in dead:
            image.apply(SessionChanged(number, 7), 1)
    return image


def placement(image: Image, configured: tuple[int, ...] = (), copies: int = 0, least: int = 0) -> ClusterPlacement:
    return ClusterPlacement(lambda: image, configured, copies_default=copies, min_insync=least)


def test_leaders_are_spread_evenly_and_each_partition_has_its_copies() -> None:
    placed = placement(image_of(1, 2, 3, 4)).place(8, 3)
    assert Counter(one.leader for one in placed) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert Counter(node for one in placed for node in one.replicas) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert all(
        len(set(one.replicas)) == 3 and one.isr == one.replicas and one.leader == one.replicas[0] for one in placed
    )


def test_topics_of_one_partition_do_not_all_go_to_the_same_node() -> None:
    image = image_of(1, 2, 3)
    for number in range(6):
        topic = Topic(f"t{number}", UUID(int=100 + number), 1, 1)
        image.apply(TopicCreated(topic, placement(image).place(1, 1)), 2)
    assert Load(image).leads == {1: 2, 2: 2, 3: 2}


def test_the_partitions_of_a_topic_are_spread_although_a_node_leads_less_than_others() -> None:
    """It was away when the large topic was made. All leaders of the next one on it would be a bottleneck."""
    image = image_of(1, 2, 3, dead=(1,))
    image.apply(TopicCreated(Topic("large", UUID(int=100), 50), placement(image).place(50, 3)), 2)
    assert Load(image).leads == {2: 25, 3: 25}
    image.apply(SessionChanged(1, 8), 3)
    image.apply(NodeChanged(1, Node(1, UUID(int=1), broker_epoch=8, fenced=False)), 3)
    assert Counter(one.leader for one in placement(image).place(6, 3)) == {1: 2, 2: 2, 3: 2}
    assert [one.leader for one in placement(image).place(1, 3)] == [1], "one that is left over goes there"


def test_what_a_node_leads_is_taken_over_by_all_others() -> None:
    placed = placement(image_of(1, 2, 3)).place(12, 3)
    assert Counter(one.replicas[:2] for one in placed) == {
        (leader, heir): 2 for leader in (1, 2, 3) for heir in (1, 2, 3) if heir != leader
    }


def test_copies_go_to_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    placed = placement(image_of(1, 2, 3, 4, 5, 6, racks=racks)).place(12, 3)
    assert all({racks[node] for node in one.replicas} == {"a", "b", "c"} for one in placed)
    assert Counter(one.leader for one in placed) == dict.fromkeys(range(1, 7), 2)


def test_a_dead_node_counts_as_a_copy_but_not_as_in_sync() -> None:
    (one,) = placement(image_of(1, 2, 3, dead=(1,))).place(1, 3)
    assert (one.leader, set(one.replicas), set(one.isr)) == (2, {1, 2, 3}, {2, 3})


def test_a_node_that_never_registered_counts_if_the_settings_name_it() -> None:
    found = placement(image_of(1), configured=(1, 2, 3))
    assert found.copies(None) == 3
    (one,) = found.place(1, 3)
    assert (one.leader, one.replicas, one.isr) == (1, (1, 2, 3), (1,))


def test_the_living_are_preferred_where_there_is_a_choice() -> None:
    placed = placement(image_of(1, 2, 3, 4, dead=(2,))).place(9, 3)
    assert all(2 not in one.replicas for one in placed)


def test_the_default_is_three_copies_of_which_two_must_be_in_sync() -> None:
    assert placement(image_of(1, 2, 3, 4, 5)).copies(None) == 3
    assert placement(image_of(1, 2)).copies(None) == 2
    assert placement(image_of(1, 2, 3), copies=1).copies(None) == 1
    assert placement(image_of(1, 2, 3)).settings(3) == {"min.insync.replicas": "2"}
    assert placement(image_of(1, 2, 3)).settings(1) == {}
    assert placement(image_of(1, 2, 3), least=3).settings(3) == {"min.insync.replicas": "3"}


def test_more_copies_than_nodes_are_refused() -> None:
    with pytest.raises(InvalidReplicationFactor, match="4 is not possible with 3 nodes"):
        placement(image_of(1, 2, 3)).copies(4)
    with pytest.raises(InvalidReplicationFactor):
        placement(image_of(1, 2, 3)).copies(0)


def test_replicas_that_are_given_are_taken_if_the_nodes_exist() -> None:
    found = placement(image_of(1, 2, 3, dead=(3,)))
    one, two = found.given({0: [2, 1], 1: [3, 2]})
    assert (one.leader, one.replicas, one.isr) == (2, (2, 1), (2, 1))
    assert (two.leader, two.replicas, two.isr) == (2, (3, 2), (2,))
    for wrong in ([9], [1, 1], []):
        with pytest.raises(InvalidReplicaAssignment, match="partition 0"):
            found.given({0: wrong})
