"""The leader's end of a replication stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from tests.unit.cluster.test_replicated_writer import PLACE, Led
from tests.unit.cluster.test_terms import TOPIC_ID, leading

from goqueue.cluster.replication import leader_stream, messages
from goqueue.cluster.replication.counts import CopyCounts
from goqueue.cluster.replication.family_feed import FamilyFeed, LogFeed
from goqueue.cluster.replication.leader_stream import LeaderStream
from goqueue.cluster.replication.messages import Answer, Round, Status, Subscribe
from goqueue.cluster.replication.terms import LedPartition
from goqueue.errors import NotLeader, OffsetOutOfRange, PeerUnreachable
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Assignment, Topic, TopicCreated
from goqueue.records import LogKind
from goqueue.testing.clock import ManualClock

Work = Callable[[], Any]


class Follower:
    """Takes what the leader sends."""

    peer = 2

    def __init__(self) -> None:
        self.got: list[messages.FromLeader] = []

    async def send(self, parts: Any) -> None:
        message, _ = messages.decode_from_leader(b"".join(parts))
        self.got.append(message)
        if isinstance(message, Round):
            raise PeerUnreachable(2, "enough")

    def close(self) -> None:
        pass


def stream_to(follower: Follower, offload: Callable[[Work], Any], terms: Any = None) -> LeaderStream:
    nothing = cast("Any", SimpleNamespace())
    return LeaderStream(
        cast("Any", follower),
        terms=terms,
        partitions=nothing,
        metadata=nothing,
        offload=offload,
        clock=ManualClock(),
        counts=CopyCounts(),
    )


def cold_feed(subscription: int, one: Led) -> FamilyFeed:
    """One follower's way to a partition of three records that are not in memory."""
    ignored: Callable[..., None] = lambda *_: None  # noqa: E731
    led = LedPartition(one.term)
    led.writers[LogKind.DATA] = one.writer
    feed = FamilyFeed(led, 2, on_mark=ignored, on_watermark=ignored, on_announce=ignored)
    log = feed.logs[LogKind.DATA] = LogFeed(subscription, one.writer, 0, 0)
    log.cold_upper = 3
    return feed


async def at_once(work: Work) -> Any:
    return work()


async def test_a_follower_may_subscribe_to_another_log_of_a_family_while_a_thread_reads_one() -> None:
    """Otherwise the stream of all partitions breaks off, and begins anew."""
    one = Led(records=3)
    feed = cold_feed(1, one)

    async def offload(work: Work) -> Any:
        feed.logs.setdefault(LogKind.DELAY, LogFeed(2, one.writer, 3, 0))
        return work()

    stream = stream_to(Follower(), offload)
    stream._feeds[PLACE] = feed
    stream._mark(feed)
    await stream._read_cold()
    assert feed.logs[LogKind.DATA].read_ahead is not None


async def test_a_subscription_is_answered_before_its_frames_are_sent() -> None:
    """The follower drops frames of a log that is not matched yet, and nobody would send them again."""
    feed, other = cold_feed(1, Led(records=3)), cold_feed(2, Led(records=3))
    other.logs.clear()

    async def offload(work: Work) -> Any:
        if not other.logs:
            # As `_match` does when the subscription arrives, while a thread reads for another partition.
            stream._say(Answer(2, Status.OK, 3, 3))
            other.logs[LogKind.DATA] = LogFeed(2, other.led.writers[LogKind.DATA], 0, 0)
            stream._mark(other)
        return work()

    follower = Follower()
    stream = stream_to(follower, offload)
    stream._mark(feed)
    await asyncio.wait_for(stream._send(), 5)
    answer, frames = follower.got
    assert isinstance(answer, Answer)
    assert isinstance(frames, Round)
    assert {log.subscription for log in frames.logs} == {1, 2}


async def test_no_more_is_read_ahead_than_a_round_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that lacks something of a thousand partitions would make its leader hold a thousand times as much."""
    monkeypatch.setattr(leader_stream, "ROUND_BYTES_MAX", 1)
    stream = stream_to(Follower(), at_once)
    feeds = [cold_feed(number, Led(records=3)) for number in range(1, 11)]
    for feed in feeds:
        stream._mark(feed)

    def ahead() -> int:
        return sum(feed.logs[LogKind.DATA].read_ahead is not None for feed in feeds)

    for _ in range(3):
        await stream._read_cold()
        assert ahead() == 1
    sent = 0
    while stream._marked:
        await stream._read_cold()
        assert ahead() <= 1
        sent += sum(part.log.size > 0 for part in stream._collect())
    assert sent >= len(feeds)


async def test_what_a_thread_is_to_read_is_not_tried_on_the_loop_in_every_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_stream, "_READ_SECONDS", -1)
    stream = stream_to(Follower(), at_once)
    feeds = [cold_feed(number, Led(records=3)) for number in range(1, 11)]
    for feed in feeds:
        stream._mark(feed)
    on_loop: list[int] = []
    read = PartitionLog.read_frames

    def counted(self: PartitionLog, offset: int, **options: Any) -> Any:
        if options.get("nowait"):
            on_loop.append(offset)
        return read(self, offset, **options)

    monkeypatch.setattr(PartitionLog, "read_frames", counted)
    for rounds in range(1, 11):
        await stream._read_cold()
        stream._collect()
        assert [feed.logs[LogKind.DATA].next_offset for feed in feeds].count(3) == rounds, "one read takes all the time"
    assert on_loop == []


async def test_a_topic_that_is_deleted_while_a_thread_reads_it_breaks_off_nothing_else() -> None:
    feed = cold_feed(1, Led(records=3))

    async def offload(_work: Work) -> Any:
        feed.led.writers[LogKind.DATA].end(NotLeader("topic 'orders' is deleted"))
        raise OffsetOutOfRange(0, 3, 3)

    def fail(*_: object) -> bool:
        raise IndexError("the image knows no such partition any more")

    stream = stream_to(Follower(), offload, SimpleNamespace(must_leave_first=fail))
    feed.logs[LogKind.DATA].next_offset = -1
    stream._mark(feed)
    await stream._read_cold()


async def test_a_subscription_that_comes_late_is_refused_also_if_the_last_one_was_told_to_begin_anew() -> None:
    """The follower empties its log. With `acks_all = written` it would join the in-sync replicas by its former end."""
    clock = ManualClock()
    terms, one, led = leading(clock)
    one.term.take_isr((1, 3), 1)
    topic = Topic("orders", TOPIC_ID, 1, 3, {})
    assigned = Assignment(leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 3))
    terms._metadata.image.apply(TopicCreated(topic, (assigned,)), 1)
    one.write()
    follower = Follower()
    stream = LeaderStream(
        cast("Any", follower),
        terms=terms,
        partitions=cast("Any", None),
        metadata=terms._metadata,
        offload=at_once,
        clock=clock,
        counts=CopyCounts(),
    )
    said = Subscribe(5, TOPIC_ID, 0, LogKind.DATA, 4, 2, one.log.end_offset, 4)
    stream._match(led, structs.replace(said, subscription=6, is_sound=False, wants_reset=True))
    assert one.writer.term.positions.get(2) is None, "what it said before is void"
    stream._match(led, said)
    await stream._send_answers()
    reset, late = follower.got
    assert isinstance(reset, Answer)
    assert isinstance(late, Answer)
    assert (reset.subscription, reset.status) == (6, Status.RESET)
    assert (late.subscription, late.status) == (5, Status.REFUSED)
    assert one.writer.term.positions.get(2) is None
