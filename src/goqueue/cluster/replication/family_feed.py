"""FamilyFeed: the logs of one partition on their way to one follower, in one term.

The ends of the family are taken in one step, and the frames of delay and delivery logs are sent before the data frames
of the same cut. Data is not sent at all while the follower has not subscribed to every log of the family: it would have
the hole that a delayed record left, without the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from goqueue.cluster.replicated_writer import ReplicatedWriter
from goqueue.cluster.replication.messages import LogRound
from goqueue.cluster.replication.terms import LedPartition
from goqueue.log.reads import Read
from goqueue.ports import ColdRead
from goqueue.records import LogKind


class LogFeed:
    """One log that the follower has subscribed to, matched with ours."""

    __slots__ = (
        "cold_upper",
        "next_offset",
        "read_ahead",
        "sent_start",
        "sent_sync",
        "sent_tombstones",
        "sent_watermark",
        "subscription",
        "writer",
    )

    def __init__(self, subscription: int, writer: ReplicatedWriter, next_offset: int, tombstones_gone_to: int) -> None:
        self.subscription = subscription
        self.writer = writer
        # The follower has everything below, or it is on its way.
        self.next_offset = next_offset
        self.sent_watermark = -1
        self.sent_sync = 0
        self.sent_start = 0
        # What the follower knows of tombstones that are gone here.
        self.sent_tombstones = tombstones_gone_to
        # Its next frames are not in memory: they are to be read in a thread, up to here. -1: they are.
        self.cold_upper = -1
        # What a thread has read, from `next_offset` on.
        self.read_ahead: Read | None = None

    def read(self, bytes_max: int, upper: int, *, nowait: bool) -> Read:
        """The next frames. Not `nowait` on any thread. Nothing, if that would mean to wait for the disk."""
        ahead, self.read_ahead = self.read_ahead, None
        if ahead is not None:
            return ahead
        if nowait and self.cold_upper > self.next_offset:
            # A thread reads it when it is its turn. Of a thousand such logs none is asked again in every round.
            return Read([], self.next_offset, 0)
        try:
            return self.writer.log.read_frames(self.next_offset, max_bytes=bytes_max, upper=upper, nowait=nowait)
        except ColdRead:
            self.cold_upper = upper
            return Read([], self.next_offset, 0)


class Part(NamedTuple):
    """What a round has for one log, with its frames."""

    log: LogRound
    frames: list[memoryview]


class FamilyFeed:
    """A `Feed`: one family for one follower."""

    def __init__(
        self,
        led: LedPartition,
        follower: int,
        *,
        on_mark: Callable[[FamilyFeed], None],
        on_watermark: Callable[[FamilyFeed], None],
        on_announce: Callable[[int, LogKind], None],
    ) -> None:
        self.led = led
        self.follower = follower
        self.logs: dict[LogKind, LogFeed] = {}
        self._on_mark = on_mark
        self._on_watermark = on_watermark
        self._on_announce = on_announce

    @property
    def is_over(self) -> bool:
        """Whether the term has ended."""
        return self.led.is_over

    def mark(self, *, is_urgent: bool) -> None:
        """See `Feed.mark`."""
        (self._on_mark if is_urgent else self._on_watermark)(self)

    def announce(self, kind: LogKind) -> None:
        """See `Feed.announce`."""
        data = self.logs.get(LogKind.DATA)
        if data is not None and kind not in self.logs:
            self._on_announce(data.subscription, kind)

    def collect(self, bytes_max: int) -> tuple[list[Part], bool]:
        """The next parts of a round, and whether there is nothing left to send."""
        parts: list[Part] = []
        ends = {kind: feed.writer.log.end_offset for kind, feed in self.logs.items()}
        is_whole = self.led.term.kinds <= self.logs.keys()
        # The data log has the lowest number, and comes last.
        for kind in sorted(self.logs, reverse=True):
            if kind is LogKind.DATA and not is_whole:
                break
            feed = self.logs[kind]
            frames: list[memoryview] = []
            continues = feed.next_offset
            if continues < ends[kind] and bytes_max > 0:
                found = feed.read(bytes_max, ends[kind], nowait=True)
                frames = found.batches
                if frames:
                    feed.next_offset = found.next_offset
                    bytes_max -= found.bytes
            part = self._part(feed, continues, frames)
            if part is not None:
                parts.append(part)
            if feed.next_offset < ends[kind]:
                # What is neither found nor about to be read is not there: compaction took it.
                return parts, not frames and feed.cold_upper < 0 and bytes_max > 0
        return parts, True

    def _part(self, feed: LogFeed, continues: int, frames: list[memoryview]) -> Part | None:
        log, term = feed.writer.log, feed.writer.term
        watermark, start, tombstones = log.high_watermark, log.start_offset, log.tombstones_gone_to
        # What the follower does not have yet it cannot sync.
        sync_to = min(self.led.term.sync_wanted_of(self.follower, term), feed.next_offset)
        is_old = watermark <= feed.sent_watermark and start <= feed.sent_start and tombstones <= feed.sent_tombstones
        if not frames and sync_to <= feed.sent_sync and is_old:
            return None
        feed.sent_sync, feed.sent_watermark, feed.sent_start = max(sync_to, feed.sent_sync), watermark, start
        feed.sent_tombstones = max(tombstones, feed.sent_tombstones)
        size = sum(len(frame) for frame in frames)
        return Part(LogRound(feed.subscription, continues, size, watermark, sync_to, start, tombstones), frames)
