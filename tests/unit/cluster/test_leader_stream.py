"""The leader's end of a replication stream."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.cluster.test_replicated_writer import PLACE, Led

from goqueue.cluster.replication.counts import CopyCounts
from goqueue.cluster.replication.family_feed import FamilyFeed, LogFeed
from goqueue.cluster.replication.leader_stream import LeaderStream
from goqueue.cluster.replication.terms import LedPartition
from goqueue.records import LogKind
from goqueue.testing.clock import ManualClock


async def test_a_follower_may_subscribe_to_another_log_of_a_family_while_a_thread_reads_one() -> None:
    """Otherwise the stream of all partitions breaks off, and begins anew."""
    one = Led(records=3)
    led = LedPartition(one.term)
    led.writers[LogKind.DATA] = one.writer
    ignored: Callable[..., None] = lambda *_: None  # noqa: E731

    async def offload(work: Callable[[], Any]) -> Any:
        feed.logs.setdefault(LogKind.DELAY, LogFeed(2, one.writer, 3, 0))
        return work()

    nothing = cast("Any", SimpleNamespace(peer=2))
    stream = LeaderStream(
        nothing,
        terms=nothing,
        partitions=nothing,
        metadata=nothing,
        offload=offload,
        clock=ManualClock(),
        counts=CopyCounts(),
    )
    feed = FamilyFeed(led, 2, on_mark=ignored, on_watermark=ignored, on_announce=ignored)
    log = feed.logs[LogKind.DATA] = LogFeed(1, one.writer, 0, 0)
    log.cold_upper = 3
    stream._feeds[PLACE] = feed
    stream._mark(feed)
    await stream._read_cold()
    assert log.read_ahead is not None
