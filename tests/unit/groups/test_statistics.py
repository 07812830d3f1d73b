"""Rebalance statistics: how often, why, how long, how much."""

from __future__ import annotations

from goqueue.groups.statistics import DURATION_BUCKETS_MS, Reason, Rebalances


def test_a_rebalance_lasts_from_its_first_reason_to_its_end() -> None:
    rebalances = Rebalances()
    rebalances.start("g", Reason.MEMBER_JOINED, 1_000)
    rebalances.start("g", Reason.MEMBER_JOINED, 1_300)
    rebalances.start("g", Reason.MEMBER_LEFT, 1_400)
    rebalances.move("g", 3)
    rebalances.complete("g", 1_500)

    counts = rebalances.of("g")

    assert (counts.started, counts.completed, counts.partitions_moved) == (1, 1, 3)
    assert counts.by_reason == {Reason.MEMBER_JOINED: 1}, "reasons add up to the rebalances"
    assert (counts.duration_ms_last, counts.duration_ms_max, counts.duration_ms_average) == (500, 500, 500.0)
    assert counts.last_completed_ms == 1_500
    assert counts.durations[DURATION_BUCKETS_MS.index(500)] == 1


def test_groups_are_counted_apart_and_together() -> None:
    rebalances = Rebalances()
    for group in ("a", "b"):
        rebalances.start(group, Reason.REVOCATION_TIMEOUT, 0)
        rebalances.complete(group, 70_000)

    assert rebalances.of("a").revocation_timeouts == 1
    assert rebalances.overall().revocation_timeouts == 2
    assert rebalances.overall().durations[-1] == 2, "longer than the last bound"
    assert rebalances.of("unknown").started == 0


def test_an_end_without_a_beginning_and_an_abandoned_one_count_for_nothing() -> None:
    rebalances = Rebalances()
    rebalances.complete("g", 5)
    rebalances.start("g", Reason.MEMBER_LEFT, 10)
    rebalances.abandon("g")
    rebalances.complete("g", 20)

    counts = rebalances.of("g")
    assert (counts.started, counts.completed, counts.abandoned) == (1, 0, 1)
    assert rebalances.overall().abandoned == 1
    assert not rebalances.is_open("g")


def test_what_is_handed_out_is_a_copy() -> None:
    """A reader cannot change the figures."""
    rebalances = Rebalances()
    rebalances.start("g", Reason.MEMBER_LEFT, 10)
    copy = rebalances.of("g")
    copy.by_reason.clear()
    copy.durations.clear()

    assert rebalances.of("g").by_reason == {Reason.MEMBER_LEFT: 1}
    assert rebalances.of("g").durations != []


def test_the_number_of_groups_is_bounded() -> None:
    rebalances = Rebalances()
    for one in range(10_050):
        rebalances.start(f"g{one}", Reason.MEMBER_JOINED, 0)
        rebalances.complete(f"g{one}", 1)

    assert len(rebalances._groups) == 10_000
    assert rebalances.overall().started == 10_050
