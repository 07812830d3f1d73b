"""Topics grow, go and come back while groups read them: every group hears of it and reads the others on."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import Bench, FakeTopics, assignment, subscription

from goqueue.errors import RebalanceInProgress
from goqueue.groups.commands import RebalanceState
from goqueue.groups.statistics import Reason

EAGER = {"protocol_type": "goqueue", "protocols": (("range", subscription("t", "u")),)}


def eager_group(topics: FakeTopics, **assigned: list[int]) -> tuple[Bench, int]:
    """A group over HTTP that reads t and u, and its generation."""
    bench = Bench(topics)
    generation = bench.joined(bench.newcomer("a", **EAGER)).generation
    bench.answer(bench.sync("a", generation, {"a": assignment(**assigned)}))
    bench.beat("a", generation)
    return bench, generation


def test_an_eager_member_is_called_back_when_a_topic_grows() -> None:
    topics = FakeTopics(t=1, u=1)
    bench, generation = eager_group(topics, t=[0], u=[0])
    topics.grow("t", 2)

    with pytest.raises(RebalanceInProgress):
        bench.beat("a", generation)
    assert bench.rebalances.of("g").by_reason[Reason.TOPICS_CHANGED] == 1


def test_an_eager_member_is_called_back_when_a_topic_is_deleted_and_when_it_is_made_again() -> None:
    topics = FakeTopics(t=1, u=1)
    bench, generation = eager_group(topics, t=[0], u=[0])
    topics.delete("u")
    with pytest.raises(RebalanceInProgress):
        bench.beat("a", generation)
    generation = bench.joined(bench.join("a", **EAGER)).generation
    bench.answer(bench.sync("a", generation, {"a": assignment(t=[0])}))
    bench.beat("a", generation)

    topics.create("u", 3)
    with pytest.raises(RebalanceInProgress):
        bench.beat("a", generation)


def test_an_eager_member_is_called_back_after_a_restart_that_came_between() -> None:
    topics = FakeTopics(t=1, u=1)
    bench, generation = eager_group(topics, t=[0], u=[0])
    topics.grow("u", 2)
    bench.restart()

    with pytest.raises(RebalanceInProgress):
        bench.beat("a", generation)


def test_other_topics_do_not_disturb_an_eager_group() -> None:
    topics = FakeTopics(t=1, u=1)
    bench, generation = eager_group(topics, t=[0], u=[0])
    topics.create("elsewhere", 5)

    bench.beat("a", generation)


def test_members_of_kafka_clients_watch_their_topics_themselves() -> None:
    topics = FakeTopics(t=1)
    bench = Bench(topics)
    generation = bench.form("a")
    topics.grow("t", 2)

    bench.beat("a", generation)


@pytest.mark.parametrize("says_what_it_owns", [True, False])
def test_a_deleted_topic_is_taken_from_a_member_without_a_revocation(says_what_it_owns: bool) -> None:
    topics = FakeTopics(t=1, u=1)
    bench = Bench(topics)
    beat = bench.consume("a", topics=("t", "u"))
    owned = topics.partitions("t") | topics.partitions("u")
    assert beat.assignment == owned
    topics.delete("u")

    beat = bench.consume("a", beat.member_epoch, owned=owned if says_what_it_owns else None)
    assert (beat.state, beat.revoking) == (RebalanceState.COMPLETE, frozenset())
    assert beat.assignment == topics.partitions("t")
    bench.pass_ms(20_000)
    bench.consume("a", beat.member_epoch)


def test_what_is_left_to_revoke_goes_with_its_topic() -> None:
    topics = FakeTopics(t=2)
    bench = Bench(topics, revocation_timeout_ms=5_000)
    first = bench.consume("a")
    owned = first.assignment
    assert owned is not None
    bench.consume("b")
    asked = bench.consume("a", first.member_epoch, owned=owned)
    assert asked.state is RebalanceState.PENDING_REVOKE
    topics.delete("t")

    done = bench.consume("a", first.member_epoch, owned=owned)
    assert (done.revoking, done.assignment) == (frozenset(), frozenset())
    bench.pass_ms(10_000)
    bench.consume("a", done.member_epoch, owned=frozenset())


def test_a_topic_made_again_is_assigned_by_its_new_id() -> None:
    topics = FakeTopics(t=2, u=1)
    bench = Bench(topics)
    beat = bench.consume("a", topics=("t", "u"))
    topics.delete("t")
    topics.create("t", 3)

    beat = bench.consume("a", beat.member_epoch, owned=beat.assignment)
    assert beat.assignment == topics.partitions("t") | topics.partitions("u")


def test_a_lost_answer_is_given_again_to_a_member_that_still_counts_a_deleted_topic_as_its_own() -> None:
    topics = FakeTopics(t=1, u=1)
    bench = Bench(topics)
    first = bench.consume("a", topics=("t", "u"))
    topics.delete("u")
    lost = bench.consume("a", first.member_epoch, owned=first.assignment)

    again = bench.consume("a", first.member_epoch, owned=first.assignment)
    assert (again.member_epoch, again.assignment) == (lost.member_epoch, topics.partitions("t"))


def test_a_pattern_finds_new_topics_and_loses_deleted_ones() -> None:
    topics = FakeTopics(orders_a=1)
    bench = Bench(topics)
    beat = bench.consume("a", topics=(), regex="orders.*")
    topics.create("orders_b", 2)
    beat = bench.consume("a", beat.member_epoch, owned=beat.assignment)
    assert beat.assignment == topics.partitions("orders_a") | topics.partitions("orders_b")
    topics.delete("orders_a")

    beat = bench.consume("a", beat.member_epoch, owned=beat.assignment)
    assert beat.assignment == topics.partitions("orders_b")
