"""One partition when nodes come and go: who stays in sync, who leads, and what is never elected."""

from __future__ import annotations

import pytest
from msgspec import structs

from goqueue.cluster.control.elections import (
    NO_LEADER,
    Nodes,
    Rules,
    elected,
    forced,
    is_settled,
    is_unclean,
    moved,
    preferred,
)
from goqueue.metadata.events import Assignment

ALL = Assignment(leader=1, leader_epoch=5, replicas=(1, 2, 3), isr=(1, 2, 3))
TWO = Rules(min_insync=2)


def living(*nodes: int, emptied: tuple[int, ...] = ()) -> Nodes:
    return Nodes(frozenset(nodes), frozenset(emptied))


def after(one: Assignment, nodes: Nodes, rules: Rules = TWO) -> Assignment:
    return elected(one, one.eligible, nodes, rules)


def test_while_all_live_nothing_changes() -> None:
    assert is_settled(ALL, living(1, 2, 3))
    assert after(ALL, living(1, 2, 3)) is ALL


def test_a_follower_that_dies_leaves_the_set_and_the_leader_keeps_its_epoch() -> None:
    assert after(ALL, living(1, 2)) == structs.replace(ALL, isr=(1, 2))


def test_the_next_replica_in_order_leads_in_a_new_epoch() -> None:
    one = structs.replace(ALL, replicas=(1, 3, 2))
    assert after(one, living(2, 3)) == structs.replace(one, leader=3, leader_epoch=6, isr=(2, 3))


def test_a_replica_outside_the_set_is_not_elected() -> None:
    one = structs.replace(ALL, isr=(1, 2))
    assert after(one, living(2, 3)).leader == 2
    alone = structs.replace(ALL, isr=(1,))
    assert after(alone, living(2, 3)).leader == NO_LEADER


def test_whoever_leaves_in_the_write_below_the_minimum_is_eligible() -> None:
    two = structs.replace(ALL, isr=(1, 2))
    below = after(two, living(1))
    assert (below.leader, below.isr, below.eligible) == (1, (1,), (2,))
    # The third left while the minimum was kept: records were promised without it.
    assert 3 not in below.eligible


def test_an_eligible_replica_leads_when_no_member_of_the_set_can() -> None:
    below = structs.replace(ALL, isr=(1,), eligible=(2,))
    led = after(below, living(2, 3))
    assert (led.leader, led.leader_epoch, led.isr) == (2, 6, (2,))
    # Nothing has been promised since, so the former leader has all that was.
    assert led.eligible == (1,)


def test_without_a_minimum_above_one_nobody_becomes_eligible() -> None:
    one = after(structs.replace(ALL, isr=(1, 2)), living(1), Rules(min_insync=1))
    assert one.eligible == ()


def test_the_list_is_cleared_when_the_set_is_back_at_the_minimum() -> None:
    grown = structs.replace(ALL, isr=(1, 3), eligible=(2,))
    assert after(grown, living(1, 2, 3)).eligible == ()


def test_when_all_members_die_all_stay_in_the_set_and_nobody_leads() -> None:
    one = structs.replace(ALL, isr=(1, 2))
    gone = after(one, living(3))
    assert (gone.leader, gone.leader_epoch, gone.isr) == (NO_LEADER, 6, (1, 2))
    back = after(gone, living(2, 3))
    assert (back.leader, back.leader_epoch, back.isr) == (2, 7, (2,))


def test_a_node_that_lost_its_disk_leaves_even_as_the_last_member() -> None:
    alone = structs.replace(ALL, isr=(1,), eligible=(2,))
    gone = after(alone, living(3, emptied=(1,)))
    assert (gone.leader, gone.isr, gone.eligible) == (NO_LEADER, (), (2,))
    assert after(gone, living(1, 2, 3)).leader == 2


def test_a_node_that_lost_its_disk_is_not_eligible_either() -> None:
    alone = structs.replace(ALL, isr=(1,), eligible=(2,))
    gone = after(alone, living(2, 3, emptied=(1, 2)))
    assert (gone.leader, gone.isr, gone.eligible) == (NO_LEADER, (), ())


def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it() -> None:
    alone = structs.replace(ALL, isr=(1,))
    assert after(alone, living(3)).leader == NO_LEADER
    led = after(alone, living(3), Rules(min_insync=2, unclean=True))
    assert (led.leader, led.isr, led.eligible) == (3, (3,), ())
    assert is_unclean(alone, (), led)
    assert not is_unclean(alone, (3,), led)


def test_a_forced_leader_is_the_first_living_replica() -> None:
    gone = structs.replace(ALL, leader=NO_LEADER, isr=(1,))
    led = forced(gone, living(2, 3))
    assert led is not None
    assert (led.leader, led.leader_epoch, led.isr) == (2, 6, (2,))
    assert forced(gone, living(9)) is None


def test_leadership_returns_to_the_first_replica_once_it_is_in_sync() -> None:
    away = structs.replace(ALL, leader=2)
    back = preferred(away, living(1, 2, 3))
    assert back is not None
    assert (back.leader, back.leader_epoch) == (1, 6)
    assert preferred(structs.replace(away, isr=(2, 3)), living(1, 2, 3)) is None
    assert preferred(away, living(2, 3)) is None
    assert preferred(ALL, living(1, 2, 3)) is None


def test_added_replicas_count_once_all_of_them_are_in_sync() -> None:
    one = Assignment(leader=1, leader_epoch=5, replicas=(1,), isr=(1, 2), adding=(2, 3))
    assert moved(one, living(1, 2, 3)) is one
    done = moved(structs.replace(one, isr=(1, 2, 3)), living(1, 2, 3))
    assert done == Assignment(leader=1, leader_epoch=5, replicas=(1, 2, 3), isr=(1, 2, 3))


def test_a_leader_that_is_removed_hands_over_in_the_same_write() -> None:
    one = Assignment(leader=1, leader_epoch=5, replicas=(1, 2), isr=(1, 2, 3), adding=(3,), removing=(1,))
    done = moved(one, living(1, 2, 3))
    assert done == Assignment(leader=2, leader_epoch=6, replicas=(2, 3), isr=(2, 3))


def test_the_only_member_of_the_set_is_not_removed() -> None:
    one = Assignment(leader=1, leader_epoch=5, replicas=(1, 2), isr=(1,), removing=(1,))
    assert moved(one, living(1, 2)) is one


@pytest.mark.parametrize(
    "nodes", [living(), living(1), living(2), living(1, 3), living(2, 3), living(3, emptied=(1, 2))]
)
def test_what_was_decided_stays_decided(nodes: Nodes) -> None:
    for one in (ALL, structs.replace(ALL, isr=(1, 2)), structs.replace(ALL, isr=(1,), eligible=(2,))):
        once = after(one, nodes)
        assert after(once, nodes) == once
