"""Assignors: every partition once, evenly, and moved only when it must be."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.groups.subscription.assignors import (
    ASSIGNORS,
    Assignment,
    Subscriber,
    assign_range,
    assign_round_robin,
    assign_uniform,
)
from goqueue.groups.subscription.topic_partitions import TopicIdPartition

T, U, V = UUID(int=1), UUID(int=2), UUID(int=3)


def members(*names: str, topics: frozenset[UUID] = frozenset({T})) -> list[Subscriber]:
    return [Subscriber(name, topics) for name in names]


def continued(assignment: Assignment, *names: str, topics: frozenset[UUID] = frozenset({T})) -> list[Subscriber]:
    return [Subscriber(name, topics, assignment.get(name, frozenset())) for name in names]


def numbers(assignment: Assignment) -> dict[str, list[int]]:
    return {name: sorted(one.partition for one in partitions) for name, partitions in assignment.items()}


def moves(before: Assignment, after: Assignment) -> int:
    owner = {one: name for name, partitions in after.items() for one in partitions}
    return sum(owner.get(one) != name for name, partitions in before.items() for one in partitions)


@pytest.mark.parametrize(("partitions", "expected"), [(2, [1, 1]), (3, [2, 1]), (4, [2, 2]), (7, [4, 3])])
def test_a_second_member_gets_its_half(partitions: int, expected: list[int]) -> None:
    alone = assign_uniform(members("a"), {T: partitions})

    both = assign_uniform(continued(alone, "a", "b"), {T: partitions})

    assert sorted((len(one) for one in both.values()), reverse=True) == expected
    assert moves(alone, both) == expected[1]


def test_the_one_more_stays_with_whoever_has_it() -> None:
    before = {
        "a": frozenset({TopicIdPartition(T, 0)}),
        "b": frozenset({TopicIdPartition(T, 1)}),
        "c": frozenset({TopicIdPartition(T, 2), TopicIdPartition(T, 3)}),
    }

    assert assign_uniform(continued(before, "a", "b", "c"), {T: 4}) == before


def test_range_gives_neighbours_and_the_first_members_one_more() -> None:
    assert numbers(assign_range(members("b", "a", "c"), {T: 7})) == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_range_keeps_the_place_of_a_static_member_whatever_its_id() -> None:
    static = [Subscriber("z", frozenset({T}), instance_id="1"), Subscriber("a", frozenset({T}), instance_id="2")]

    assert numbers(assign_range(static, {T: 4})) == {"z": [0, 1], "a": [2, 3]}


def test_round_robin_deals_in_turn() -> None:
    assert numbers(assign_round_robin(members("a", "b"), {T: 5})) == {"a": [0, 2, 4], "b": [1, 3]}


def test_more_members_than_partitions_leaves_some_idle() -> None:
    for assign in ASSIGNORS.values():
        sizes = sorted(len(one) for one in assign(members("a", "b", "c", "d"), {T: 2}).values())
        assert sizes == [0, 0, 1, 1]


def test_nobody_and_nothing_are_fine() -> None:
    for assign in ASSIGNORS.values():
        assert assign([], {T: 3}) == {}
        assert assign(members("a"), {}) == {"a": frozenset()}


def test_what_no_longer_exists_is_given_up() -> None:
    before = {"a": frozenset({TopicIdPartition(T, 5), TopicIdPartition(U, 0), TopicIdPartition(T, 0)})}

    after = assign_uniform(continued(before, "a"), {T: 2})

    assert after == {"a": frozenset({TopicIdPartition(T, 0), TopicIdPartition(T, 1)})}


def test_different_subscriptions_are_levelled_as_far_as_they_allow() -> None:
    subscribers = [
        Subscriber("t-only", frozenset({T})),
        Subscriber("both", frozenset({T, U})),
        Subscriber("u-only", frozenset({U})),
    ]

    sizes = {name: len(one) for name, one in assign_uniform(subscribers, {T: 6, U: 6}).items()}

    assert sizes == {"t-only": 4, "both": 4, "u-only": 4}


_topic_sets = st.frozensets(st.sampled_from([T, U, V]), max_size=3)
_counts = st.dictionaries(st.sampled_from([T, U, V]), st.integers(1, 12), max_size=3)


@st.composite
def _groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[UUID, int]]:
    counts = draw(_counts)
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=8))
    owned: dict[str, set[TopicIdPartition]] = {name: set() for name in names}
    for topic_id, count in counts.items():
        for partition in range(count + draw(st.integers(0, 2))):  # some that have ceased to exist
            owner = draw(st.sampled_from([*names, None]))
            if owner is not None:
                owned[owner].add(TopicIdPartition(topic_id, partition))
    shared = draw(st.one_of(st.none(), _topic_sets))
    return [
        Subscriber(name, draw(_topic_sets) if shared is None else shared, frozenset(owned[name])) for name in names
    ], counts


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(_groups())
def test_every_wanted_partition_has_exactly_one_owner_who_wants_it(
    name: str, group: tuple[list[Subscriber], dict[UUID, int]]
) -> None:
    subscribers, counts = group

    assignment = ASSIGNORS[name](subscribers, counts)

    topics = {one.member_id: one.topics for one in subscribers}
    assert assignment.keys() == topics.keys()
    assert all(one.topic_id in topics[member] for member, mine in assignment.items() for one in mine)
    wanted = {topic_id for one in subscribers for topic_id in one.topics} & counts.keys()
    expected = Counter(TopicIdPartition(topic_id, one) for topic_id in wanted for one in range(counts[topic_id]))
    assert Counter(one for mine in assignment.values() for one in mine) == expected


@given(_groups())
def test_uniform_differs_by_at_most_one_among_equal_subscriptions(
    group: tuple[list[Subscriber], dict[UUID, int]],
) -> None:
    subscribers, counts = group

    assignment = assign_uniform(subscribers, counts)

    for topics in {one.topics.intersection(counts) for one in subscribers}:
        sizes = [len(assignment[one.member_id]) for one in subscribers if one.topics.intersection(counts) == topics]
        assert max(sizes) - min(sizes) <= 1


@given(_groups())
def test_uniform_is_at_rest_when_nothing_changes(group: tuple[list[Subscriber], dict[UUID, int]]) -> None:
    subscribers, counts = group
    first = assign_uniform(subscribers, counts)

    again = assign_uniform([Subscriber(one.member_id, one.topics, first[one.member_id]) for one in subscribers], counts)

    assert again == first


@given(st.integers(1, 8), st.integers(1, 40))
def test_a_join_moves_only_what_the_newcomer_gets(size: int, partitions: int) -> None:
    names = [f"m{one}" for one in range(size)]
    before = assign_uniform(members(*names), {T: partitions})

    after = assign_uniform(continued(before, *names, "new"), {T: partitions})

    assert moves(before, after) == len(after["new"])
    assert len(after["new"]) == partitions // (size + 1)


@given(st.integers(2, 8), st.integers(1, 40), st.data())
def test_a_leave_moves_only_what_the_leaver_had(size: int, partitions: int, data: st.DataObject) -> None:
    names = [f"m{one}" for one in range(size)]
    before = assign_uniform(members(*names), {T: partitions})
    leaver = data.draw(st.sampled_from(names))

    after = assign_uniform(continued(before, *[one for one in names if one != leaver]), {T: partitions})

    assert moves(before, after) == len(before[leaver])
