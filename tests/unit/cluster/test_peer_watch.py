"""What a node finds out from its peers: whose clock is off, who does not answer, whose replicas are behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from goqueue.cluster import peer_watch, session_watch
from goqueue.cluster.catching_up import CatchingUp
from goqueue.cluster.cluster_events import ClusterEvents
from goqueue.cluster.cluster_view import Lags
from goqueue.cluster.peer_watch import Lag, PeerWatch
from goqueue.cluster.replication.counts import CopyCounts, Surplus
from goqueue.cluster.session_watch import SessionWatch
from goqueue.errors import PeerUnreachable
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    Delta,
    Node,
    NodeChanged,
    SessionChanged,
    Topic,
    TopicCreated,
)
from goqueue.metadata.image import Image
from goqueue.records import TopicPartition
from goqueue.testing.clock import ManualClock

Handler = Callable[[bytes, int], Awaitable[bytes]]
PLACE = TopicPartition("orders", 0)


class Wires:
    """Calls between nodes of one test, each of which takes `round_trip_ms`."""

    def __init__(self) -> None:
        self.handlers: dict[int, dict[str, Handler]] = {}
        self.down: set[int] = set()
        self.round_trip_ms = 10
        self.clocks: list[ManualClock] = []

    def of(self, node_id: int) -> Any:
        wires = self

        class Calls:
            def serve(self, method: str, handler: Handler) -> None:
                wires.handlers.setdefault(node_id, {})[method] = handler

            async def call(self, target: int, method: str, body: bytes, *, timeout_ms: int) -> bytes:
                del timeout_ms
                if target in wires.down:
                    raise PeerUnreachable(target, "cut off")
                for clock in wires.clocks:
                    clock.advance(ms=wires.round_trip_ms // 2)
                answer = await wires.handlers[target][method](body, node_id)
                for clock in wires.clocks:
                    clock.advance(ms=wires.round_trip_ms // 2)
                return answer

        return Calls()


def watch_on(wires: Wires, node_id: int, *, ahead_ms: int = 0, lags: tuple[Lag, ...] = ()) -> PeerWatch:
    clock = ManualClock(1_000_000 + ahead_ms)
    wires.clocks.append(clock)
    return PeerWatch(node_id, wires.of(node_id), clock, lambda: (1, 2, 3), lambda: list(lags))


async def test_a_clock_that_is_more_than_half_a_second_off_is_told() -> None:
    wires = Wires()
    first = watch_on(wires, 1)
    watch_on(wires, 2, ahead_ms=-400)
    watch_on(wires, 3, ahead_ms=2_000)
    await first.look()
    assert (first.skew_ms(1), first.skew_ms(2), first.skew_ms(3)) == (0, -400, 2_000)
    assert first.skewed() == {3: 2_000}
    assert "node 3 by 2000 ms" in (first.warning() or "")


async def test_a_slow_answer_proves_nothing_about_a_clock() -> None:
    """The answer may have waited on one of the ways: half the round trip may be the difference."""
    wires = Wires()
    wires.round_trip_ms = 2_000
    first = watch_on(wires, 1)
    watch_on(wires, 2, ahead_ms=700)
    watch_on(wires, 3)
    await first.look()
    assert first.skewed() == {}
    wires.round_trip_ms = 10
    await first.look()
    assert first.skewed() == {2: 700}


async def test_answers_and_silence_are_counted() -> None:
    wires = Wires()
    first, second = watch_on(wires, 1), watch_on(wires, 2)
    watch_on(wires, 3)
    wires.down = {3}
    await first.look()
    await first.look()
    assert second.received == 2
    assert first.missed == {3: 2}
    assert first.round_trips.keys() == {2}
    assert first.skew_ms(3) is None


async def test_lags_are_those_that_all_leaders_tell() -> None:
    wires = Wires()
    assignment = Assignment(leader=2, leader_epoch=1, replicas=(1, 2, 3), isr=(1, 2))
    first = watch_on(wires, 1)
    watch_on(wires, 2, lags=(Lag("orders", 0, 3, 17),))
    watch_on(wires, 3, lags=(Lag("orders", 1, 1, -1),))
    assert Lags(*await first.lags()).of(PLACE, assignment) == {1: 0, 3: 17}
    wires.down = {2}
    assert Lags(*await first.lags()).of(PLACE, assignment) == {1: None, 3: None}


def image_with(*, isr: tuple[int, ...], alive: tuple[int, ...] = (1, 2)) -> Image:
    image = Image()
    assignment = Assignment(leader=1, leader_epoch=0, replicas=(1, 2), isr=isr)
    image.apply(TopicCreated(Topic("orders", UUID(int=1), 1, 2), (assignment,)), 1)
    for node_id in (1, 2):
        image.apply(NodeChanged(node_id, Node(node_id, UUID(int=node_id), broker_epoch=7, fenced=False)), 1)
        if node_id in alive:
            image.apply(SessionChanged(node_id, 7), 1)
    return image


def test_a_node_is_not_ready_before_its_replicas_have_caught_up_and_stays_ready_then() -> None:
    image = image_with(isr=(1,))
    check = CatchingUp(2, lambda: image)
    assert check.problem() == "1 replicas have not caught up since the start: orders-0"
    image = image_with(isr=(1, 2))
    assert check.problem() is None
    image = image_with(isr=(1,))
    assert check.problem() is None
    image.apply(SessionChanged(2, 8), 2)
    assert check.problem() is not None, "another session begins anew"


def test_a_partition_that_nobody_leads_holds_up_no_node() -> None:
    assert CatchingUp(2, lambda: image_with(isr=(1,), alive=(2,))).problem() is None


@pytest.mark.parametrize("is_left_without", [False, True])
def test_an_election_takes_as_long_as_the_partition_was_without_a_living_leader(is_left_without: bool) -> None:
    clock = ManualClock(1_000_000)
    image = image_with(isr=(1, 2))
    events = ClusterEvents(2, image, clock)
    events.on_delta(Delta(2, (SessionChanged(1, 0),)))
    clock.advance(ms=300)
    before = image.assignments(UUID(int=1))[0]
    if is_left_without:
        nobody = Assignment(leader=-1, leader_epoch=1, replicas=before.replicas, isr=before.isr)
        events.on_delta(Delta(3, (AssignmentsChanged("orders", UUID(int=1), {0: nobody}),)))
        clock.advance(ms=200)
    after = Assignment(leader=2, leader_epoch=2, replicas=before.replicas, isr=(2,))
    events.on_delta(Delta(4, (AssignmentsChanged("orders", UUID(int=1), {0: after}),)))
    assert sum(events.election_seconds.counts) == 1
    assert events.election_seconds.seconds == pytest.approx(0.5 if is_left_without else 0.3)


def test_the_end_of_this_nodes_session_and_its_return_are_events() -> None:
    is_alive = True
    events = ClusterEvents(2, image_with(isr=(1, 2)), ManualClock(1_000_000))
    has_caught_up = False
    watch = SessionWatch(2, lambda: is_alive, lambda: has_caught_up, events)
    watch.look()
    has_caught_up = True
    watch.look()
    is_alive = False
    watch.look()
    watch.look()
    is_alive = True
    watch.look()
    kinds = ["JoinedCluster", "BootstrapComplete", "QuorumLost", "QuorumRestored"]
    assert [one.kind for one in events.newest()[::-1]] == kinds
    assert events.counts == dict.fromkeys(kinds, 1)


async def test_events_before_the_start_and_after_the_stop_of_a_node_do_no_harm() -> None:
    events = ClusterEvents(2, image_with(isr=(1, 2)), ManualClock(1_000_000))
    for number in range(500):
        change = Delta(number + 2, (SessionChanged(1, number % 2),))
        events.on_delta(change)
        watch = SessionWatch(2, lambda: True, lambda: True, events)
        events.on_delta(change)
        watch.start()
        events.on_delta(change)
        await watch.close()
        events.on_delta(change)
        await watch.close()
    assert events.counts["LeftCluster"] == events.counts["JoinedCluster"] == 500


def test_what_an_unclean_leader_lacks_is_lost_and_what_a_clean_one_lacks_is_not() -> None:
    image = image_with(isr=(1,))
    events = ClusterEvents(2, image, ManualClock(1_000_000))
    place = TopicPartition("orders", 0)
    assert not events.note_surplus(Surplus(place, 1, 10, 5, 1)), "the end of a log that nobody was promised"
    before = image.assignments(UUID(int=1))[0]
    unclean = Assignment(leader=2, leader_epoch=2, replicas=before.replicas, isr=(2,))
    events.on_delta(Delta(2, (AssignmentsChanged("orders", UUID(int=1), {0: unclean}),)))
    assert events.note_surplus(Surplus(place, 1, 10, 5, 1))
    (lost,) = [one for one in events.newest() if one.kind == "RecordsLost"]
    assert (lost.node_id, lost.topic, lost.partition) == (1, "orders", 0)
    assert "5 records, offsets 10 to 14" in lost.detail
    assert not events.note_surplus(Surplus(place, 1, 20, 5, 2)), "written since, and never promised to anybody"


def test_records_that_several_replicas_had_are_counted_once() -> None:
    counts = CopyCounts()
    counts.on_lost = lambda _: True
    for follower, records in ((1, 5), (3, 7)):
        counts.has_surplus(Surplus(TopicPartition("orders", 0), follower, 10, records, 1))
    counts.has_surplus(Surplus(TopicPartition("orders", 1), 1, 0, 2, 1))
    assert counts.lost_by_topic() == {"orders": 9}


def test_nothing_is_counted_of_topics_that_are_deleted() -> None:
    counts = CopyCounts()
    counts.on_lost = lambda _: True
    for topic in ("orders", "bills"):
        counts.took(topic, 100)
        counts.cut(topic, 3)
        counts.has_surplus(Surplus(TopicPartition(topic, 0), 2, 0, 2, 1))
    counts.forget("orders")
    assert counts.bytes_by_topic == {"bills": 100}
    assert counts.cut_by_topic() == {"bills": 3}
    assert counts.lost_by_topic() == {"bills": 2}


async def test_what_nobody_foresaw_ends_neither_the_watch_over_clocks_nor_that_over_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_watch, "_EVERY_S", 0)
    monkeypatch.setattr(session_watch, "_EVERY_S", 0)
    looks: list[str] = []

    async def look_at_clocks() -> None:
        looks.append("clocks")
        raise ValueError("nobody foresaw this")

    def look_at_session() -> None:
        looks.append("session")
        raise ValueError("nobody foresaw this")

    clocks = watch_on(Wires(), 1)
    session = SessionWatch(2, lambda: True, lambda: True, ClusterEvents(2, Image(), ManualClock()))
    clocks.look, session.look = look_at_clocks, look_at_session  # type: ignore[method-assign]
    clocks.start()
    session.start()
    for _ in range(10):
        await asyncio.sleep(0)
    await clocks.close()
    await session.close()
    assert min(looks.count("clocks"), looks.count("session")) > 1
