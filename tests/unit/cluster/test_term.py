"""What a leader knows of its followers: positions, high watermark, union and intersection, lag."""

from __future__ import annotations

from uuid import UUID

from goqueue.cluster.isr import with_isr
from goqueue.cluster.replication.term import UNKNOWN, LogTerm, PartitionTerm
from goqueue.metadata.events import Assignment
from goqueue.records import LogKind, TopicPartition

PLACE = TopicPartition("orders", 0)


class LeaderLog:
    """The numbers of a leader's own log."""

    def __init__(self) -> None:
        self.end, self.synced, self.watermark = 100, 100, 0

    def term(self, kind: LogKind = LogKind.DATA) -> LogTerm:
        return LogTerm(
            kind,
            end=lambda: self.end,
            own_synced_end=lambda: self.synced,
            high_watermark=lambda: self.watermark,
        )


def led(isr: tuple[int, ...] = (1, 2, 3)) -> tuple[PartitionTerm, LeaderLog]:
    term = PartitionTerm(PLACE, UUID(int=1), node_id=1, leader_epoch=4, isr=isr, partition_epoch=9, now_ms=0)
    log = LeaderLog()
    term.logs[LogKind.DATA] = log.term()
    return term, log


def test_no_position_is_known_when_a_term_begins() -> None:
    term, _ = led()
    data = term.logs[LogKind.DATA]
    assert data.written_by(term.counted) == UNKNOWN
    term.subscribe(2, LogKind.DATA, broker_epoch=7, end=90, now_ms=1)
    assert data.written_by(term.counted) == UNKNOWN, "node 3 has said nothing"
    term.subscribe(3, LogKind.DATA, broker_epoch=8, end=80, now_ms=1)
    assert data.written_by(term.counted) == 80
    assert data.synced_by(term.counted) == UNKNOWN, "a subscription says nothing of what is synced"


def test_what_a_follower_said_under_an_earlier_session_is_void() -> None:
    term, _ = led((1, 2))
    data = term.logs[LogKind.DATA]
    term.subscribe(2, LogKind.DATA, broker_epoch=7, end=90, now_ms=1)
    data.positions[2].report(100, 100, data, 2)
    assert data.synced_by(term.counted) == 100
    term.subscribe(2, LogKind.DATA, broker_epoch=11, end=60, now_ms=3)
    assert data.written_by(term.counted) == 60
    assert data.synced_by(term.counted) == UNKNOWN


def test_while_a_change_is_not_known_both_sets_count_and_only_those_in_both_are_certain() -> None:
    term, _ = led((1, 2))
    data = term.logs[LogKind.DATA]
    for follower, end in ((2, 100), (3, 70)):
        term.subscribe(follower, LogKind.DATA, broker_epoch=follower, end=end, now_ms=1)
    assert (data.written_by(term.counted), term.certain) == (100, 2)
    term.propose(frozenset({1, 2, 3}))
    assert (data.written_by(term.counted), term.certain) == (70, 2)
    term.propose(frozenset({1}))
    assert (data.written_by(term.counted), term.certain) == (100, 1), "node 2 still counts, and is not certain"
    term.take_isr((1,), partition_epoch=10)
    assert (term.counted, term.certain) == ((), 1)


def test_a_follower_is_fit_to_join_when_it_has_all_logs_of_the_family() -> None:
    term, log = led((1,))
    log.watermark = 100
    data = term.logs[LogKind.DATA]
    term.subscribe(2, LogKind.DATA, broker_epoch=7, end=100, now_ms=1)
    assert not term.is_caught_up(2), "what the in-sync replicas have synced it must have synced, too"
    assert term.sync_wanted_of(2, data) == 100
    data.positions[2].report(100, 100, data, 2)
    assert term.is_caught_up(2)
    term.kinds.add(LogKind.DELAY)
    assert not term.is_caught_up(2), "the delay log is not even open"


def test_what_was_there_when_the_term_began_is_synced_by_who_joins_although_the_leader_may_not_know_it_is() -> None:
    log = LeaderLog()
    # A restarted leader: 100 were acknowledged in the term before, and nothing says that its own disk has them.
    log.synced, log.watermark = 0, 100
    term = PartitionTerm(PLACE, UUID(int=1), node_id=1, leader_epoch=4, isr=(1,), partition_epoch=9, now_ms=0)
    data = term.logs[LogKind.DATA] = log.term()
    term.subscribe(2, LogKind.DATA, broker_epoch=7, end=100, now_ms=1)
    data.positions[2].report(100, 0, data, 2)
    assert not term.is_caught_up(2), "a power cut would take what was acknowledged"
    assert term.sync_wanted_of(2, data) == 100
    data.positions[2].report(100, 100, data, 3)
    assert term.is_caught_up(2)


def test_a_follower_lags_from_the_moment_it_fell_behind_and_not_from_its_last_word() -> None:
    term, log = led((1, 2))
    data = term.logs[LogKind.DATA]
    term.subscribe(2, LogKind.DATA, broker_epoch=7, end=100, now_ms=1_000)
    data.positions[2].report(100, 100, data, 1_000)
    assert term.lag_ms(2, 500_000) == 0, "nothing was written since"
    log.end = 150
    assert term.lag_ms(2, 504_000) == 4_000
    data.positions[2].report(150, 100, data, 505_000)
    assert term.lag_ms(2, 509_000) == 0
    data.sync_wanted = 150
    assert term.lag_ms(2, 513_000) == 4_000, "a disk that does not sync holds up who waits, as well"


def test_who_leaves_below_the_minimum_is_eligible_until_the_minimum_is_reached_again() -> None:
    one = Assignment(leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 2, 3))
    two = with_isr(one, frozenset({1, 2}), 2)
    assert (two.isr, two.eligible) == ((1, 2), ())
    three = with_isr(two, frozenset({1}), 2)
    assert (three.isr, three.eligible) == ((1,), (2,))
    assert with_isr(three, frozenset({1, 3}), 2).eligible == ()
