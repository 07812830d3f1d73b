"""LeaderStream: the leader's end of a replication stream.

Logs that grew are marked; once per pass of the event loop one round with all of them is sent, as long as the follower
has credit: bytes that it has not said to be written are bounded. A stream for catching up reads in threads and is
throttled, so that a replica far behind costs the others little.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial

import msgspec

from goqueue.broker.replicas.partitions import Partitions
from goqueue.clock import Clock
from goqueue.cluster.network import PeerConnection
from goqueue.cluster.replication import messages
from goqueue.cluster.replication.counts import CopyCounts, Surplus
from goqueue.cluster.replication.family_feed import FamilyFeed, LogFeed, Part
from goqueue.cluster.replication.messages import (
    Answer,
    LogRound,
    Member,
    Progress,
    Round,
    Status,
    Subscribe,
    Unsubscribe,
)
from goqueue.cluster.replication.reconciliation import Verdict, judge, lacks_tombstones
from goqueue.cluster.replication.terms import LedPartition, Terms
from goqueue.errors import GoQueueError, OffsetOutOfRange, PeerUnreachable, StorageError
from goqueue.log.reads import Read
from goqueue.metadata.store import MetadataStore
from goqueue.ports import Buffer, Offload
from goqueue.records import LogKind, TopicPartition

_log = logging.getLogger("goqueue.cluster")

ROUND_BYTES_MAX = 1024 * 1024
CREDIT_BYTES = 4 * 1024 * 1024
# High watermarks that nothing else takes along are sent after so long.
_WATERMARK_SECONDS = 0.05
# So long a round waits for threads that read for it. What they have not read then is for the next round.
_READ_SECONDS = 0.05


class LeaderStream:
    """One connection of a follower."""

    def __init__(
        self,
        connection: PeerConnection,
        *,
        terms: Terms,
        partitions: Partitions,
        metadata: MetadataStore,
        offload: Offload,
        clock: Clock,
        counts: CopyCounts,
        bytes_per_s_max: int | None = None,
    ) -> None:
        """With `bytes_per_s_max` it is one for catching up."""
        self._connection = connection
        self._follower = connection.peer
        self._terms = terms
        self._partitions = partitions
        self._metadata = metadata
        self._offload = offload
        self._clock = clock
        self._counts = counts
        self._bytes_per_s_max = bytes_per_s_max
        self._feeds: dict[TopicPartition, FamilyFeed] = {}
        self._places: dict[int, tuple[TopicPartition, LogKind]] = {}
        self._marked: dict[FamilyFeed, None] = {}
        self._watermarks: dict[FamilyFeed, None] = {}
        self._watermark_timer: asyncio.TimerHandle | None = None
        self._outbox: deque[list[Buffer]] = deque()
        self._wake = asyncio.Event()
        self._round = 0
        # Number and bytes of the rounds that the follower has not said to be written.
        self._unwritten: deque[tuple[int, int]] = deque()
        self._unwritten_bytes = 0
        self._openings: dict[asyncio.Task[None], None] = {}

    async def run(self) -> None:
        """Serve the follower until its connection ends."""
        sending = asyncio.create_task(self._send())
        try:
            while (data := await self._connection.receive()) is not None:
                self._take(messages.decode_from_follower(data))
        except (msgspec.DecodeError, PeerUnreachable) as error:
            _log.warning("the replication stream of node %d is closed: %s", self._follower, error)
        finally:
            self._connection.close()
            if self._watermark_timer is not None:
                self._watermark_timer.cancel()
            for feed in self._feeds.values():
                feed.led.feeds.pop(feed, None)
            for task in (sending, *self._openings):
                task.cancel()
            await asyncio.gather(sending, *self._openings, return_exceptions=True)

    # --- what the follower says -----------------------------------------------------------

    def _take(self, message: messages.FromFollower) -> None:
        match message:
            case Progress():
                self._progress(message)
            case Subscribe():
                self._subscribe(message)
            case Unsubscribe(subscription):
                self._unsubscribe(subscription)

    def _progress(self, progress: Progress) -> None:
        while self._unwritten and self._unwritten[0][0] <= progress.round:
            self._unwritten_bytes -= self._unwritten.popleft()[1]
        if self._marked:
            self._wake.set()
        for reached in progress.logs:
            place, kind = self._places.get(reached.subscription, (None, LogKind.DATA))
            feed = None if place is None else self._feeds.get(place)
            log = None if feed is None else feed.logs.get(kind)
            if feed is None or log is None or log.subscription != reached.subscription:
                # Of an earlier subscription: it says nothing about this one.
                continue
            if self.counts(feed, kind):
                self._terms.report(feed.led, self._follower, kind, reached.written_end, reached.synced_end)

    def counts(self, feed: FamilyFeed, kind: LogKind) -> bool:
        """Whether what the follower says is of this term, of the session that it has now and of its last subscription.

        A connection that it has given up may still bring what was true before its log was cut or emptied.
        """
        term = feed.led.term
        epoch = term.broker_epochs.get(self._follower)
        if feed.is_over or epoch != self._metadata.image.sessions.get(self._follower):
            return False
        position = term.logs[kind].positions.get(self._follower)
        return position is not None and position.subscription == feed.logs[kind].subscription

    def _subscribe(self, asked: Subscribe) -> None:
        topic = self._metadata.image.topic_by_id(asked.topic_id)
        if topic is None or asked.partition >= topic.partition_count:
            self._refuse(asked, "there is no such partition here")
            return
        place = TopicPartition(topic.name, asked.partition)
        assignment = self._metadata.image.assignments(asked.topic_id)[asked.partition]
        session = self._metadata.image.sessions.get(self._follower)
        if assignment.leader_epoch != asked.leader_epoch:
            self._refuse(asked, f"the leader epoch is {assignment.leader_epoch} here, not {asked.leader_epoch}")
        elif session != asked.broker_epoch:
            # Also if both know of none: what it says would never count, and it would not learn of that.
            self._refuse(asked, f"the session of node {self._follower} is {session} here, not {asked.broker_epoch}")
        elif self._follower not in (*assignment.replicas, *assignment.adding):
            self._refuse(asked, f"node {self._follower} has no replica here")
        else:
            led = self._terms.find(place)
            if led is None or asked.kind not in led.writers:
                self._open_first(place, asked)
            elif led.term.leader_epoch != asked.leader_epoch:
                self._refuse(asked, f"this node does not lead in epoch {asked.leader_epoch}")
            else:
                self._match(led, asked)

    def _match(self, led: LedPartition, asked: Subscribe) -> None:
        """Compare the follower's end with our log: only what agrees is continued, and counts."""
        if not led.term.hears(self._follower, asked.kind, asked.broker_epoch, asked.subscription):
            self._refuse(asked, "it comes late: a later subscription is there, on another connection")
            return
        writer = led.writers[asked.kind]
        self._terms.note_soundness(
            led, self._follower, asked.kind, is_sound=asked.is_sound, wants_reset=asked.wants_reset
        )
        verdict = judge(writer.log, asked.end, asked.last_epoch, asked.tombstones_gone_to)
        if asked.wants_reset and not led.term.counts_on(self._follower):
            # Damaged, and only a new copy helps. While it is in sync it goes on, until the ISR was changed.
            verdict = Verdict(Status.RESET, -1, writer.log.start_offset)
        if verdict.status is Status.RESET and self._terms.must_leave_first(led, self._follower):
            self._refuse(asked, "it may be elected, and leaves the eligible replicas before it begins anew")
            return
        gone_to = writer.log.tombstones_gone_to
        self._say(Answer(asked.subscription, verdict.status, verdict.epoch, verdict.end, tombstones_gone_to=gone_to))
        if verdict.status is Status.DIVERGED and asked.kind is LogKind.DATA and asked.end > verdict.end:
            surplus = asked.end - verdict.end
            self._counts.has_surplus(Surplus(led.term.place, self._follower, verdict.end, surplus, asked.last_epoch))
        if verdict.status is not Status.OK:
            led.term.void(self._follower, asked.kind)
            return
        now_ms, number = self._clock.monotonic_ms(), asked.subscription
        led.term.subscribe(self._follower, asked.kind, asked.broker_epoch, asked.end, now_ms, subscription=number)
        place = led.term.place
        feed = self._feeds.get(place)
        if feed is None or feed.led is not led:
            self._drop(place)
            feed = FamilyFeed(
                led, self._follower, on_mark=self._mark, on_watermark=self._mark_watermark, on_announce=self._announce
            )
            self._feeds[place] = feed
            led.feeds[feed] = None
        feed.logs[asked.kind] = LogFeed(number, writer, asked.end, gone_to)
        self._places[asked.subscription] = (place, asked.kind)
        if asked.kind is LogKind.DATA:
            for kind in sorted(led.term.kinds - {LogKind.DATA}):
                feed.announce(kind)
        self._mark(feed)

    def _open_first(self, place: TopicPartition, asked: Subscribe) -> None:
        """The log is not open here yet: answer when it is."""

        async def work() -> None:
            try:
                if asked.kind is LogKind.DATA:
                    await self._partitions.open_leader(*place)
                else:
                    await self._partitions.open_member(place, asked.kind)
            except (GoQueueError, OSError) as error:
                if isinstance(error, StorageError | OSError):
                    self._terms.note_unopened(place, error)
                self._refuse(asked, f"the log cannot be opened: {error}")
                return
            led = self._terms.find(place)
            if led is None or asked.kind not in led.writers or led.term.leader_epoch != asked.leader_epoch:
                self._refuse(asked, f"this node does not lead in epoch {asked.leader_epoch}")
            elif self._metadata.image.sessions.get(self._follower) != asked.broker_epoch:
                self._refuse(asked, f"the session of node {self._follower} is another by now")
            else:
                self._match(led, asked)

        task = asyncio.create_task(work())
        self._openings[task] = None
        task.add_done_callback(self._openings.pop)

    def _unsubscribe(self, subscription: int) -> None:
        place, kind = self._places.pop(subscription, (None, LogKind.DATA))
        feed = None if place is None else self._feeds.get(place)
        if place is None or feed is None:
            return
        log = feed.logs.get(kind)
        if log is not None and log.subscription == subscription:
            del feed.logs[kind]
            if not feed.logs:
                self._drop(place)

    def _drop(self, place: TopicPartition) -> None:
        feed = self._feeds.pop(place, None)
        if feed is not None:
            feed.led.feeds.pop(feed, None)
            self._marked.pop(feed, None)
            self._watermarks.pop(feed, None)
            for log in feed.logs.values():
                self._places.pop(log.subscription, None)

    # --- what is sent ---------------------------------------------------------------------

    def _refuse(self, asked: Subscribe, reason: str) -> None:
        self._say(Answer(asked.subscription, Status.REFUSED, -1, -1, reason))

    def _announce(self, subscription: int, kind: LogKind) -> None:
        self._say(Member(subscription, kind))

    def _say(self, message: messages.FromLeader) -> None:
        self._outbox.append(messages.encode(message))
        self._wake.set()

    def _mark(self, feed: FamilyFeed) -> None:
        self._marked[feed] = None
        if self._unwritten_bytes < CREDIT_BYTES:
            self._wake.set()

    def _mark_watermark(self, feed: FamilyFeed) -> None:
        if feed in self._marked:
            return
        self._watermarks[feed] = None
        if self._watermark_timer is None:
            loop = asyncio.get_running_loop()
            self._watermark_timer = loop.call_later(_WATERMARK_SECONDS, self._send_watermarks)

    def _send_watermarks(self) -> None:
        self._watermark_timer = None
        self._marked.update(self._watermarks)
        self._watermarks.clear()
        self._wake.set()

    async def _send(self) -> None:
        try:
            while True:
                # All that is marked until the loop comes back here goes into one round.
                await self._wake.wait()
                self._wake.clear()
                await self._send_answers()
                await self._read_cold()
                # Once more: the follower may have subscribed meanwhile, and drops frames that come before the answer.
                await self._send_answers()
                parts = self._collect()
                if parts:
                    await self._send_round(parts)
        except PeerUnreachable:
            pass
        except Exception:  # noqa: BLE001 - the follower connects again, and somebody must learn why
            _log.exception("the replication stream of node %d failed", self._follower)
        finally:
            self._connection.close()

    async def _send_answers(self) -> None:
        while self._outbox:
            await self._connection.send(self._outbox.popleft())

    def _collect(self) -> list[Part]:
        """The parts of the next round. What does not fit stays marked."""
        parts: list[Part] = []
        bytes_left = min(ROUND_BYTES_MAX, CREDIT_BYTES - self._unwritten_bytes)
        for feed in list(self._marked):
            if bytes_left <= 0:
                break
            del self._marked[feed]
            if feed.is_over:
                self._drop(feed.led.term.place)
                continue
            self._reset_fallen_behind(feed)
            try:
                found, is_all = feed.collect(bytes_left)
            except (GoQueueError, OSError) as error:
                # Its log cannot be read on: whoever watches over the leader hands it over.
                feed.led.sick = feed.led.sick or str(error)
                continue
            parts += found
            bytes_left -= sum(part.log.size for part in found)
            if not is_all:
                self._marked[feed] = None
        if self._marked and self._unwritten_bytes + sum(part.log.size for part in parts) < CREDIT_BYTES:
            self._wake.set()
        return parts

    async def _send_round(self, parts: list[Part]) -> None:
        self._round += 1
        logs: tuple[LogRound, ...] = tuple(part.log for part in parts)
        size = sum(log.size for log in logs)
        self._unwritten.append((self._round, size))
        self._unwritten_bytes += size
        frames = [frame for part in parts for frame in part.frames]
        await self._connection.send(messages.encode(Round(self._round, logs), frames))
        if self._bytes_per_s_max is not None and size:
            await asyncio.sleep(size / self._bytes_per_s_max)

    async def _read_cold(self) -> None:
        """Let threads read what is not in memory, as much as one round takes: more would wait here for its turn."""
        loop = asyncio.get_running_loop()
        bytes_left, has_read, ends_s = ROUND_BYTES_MAX, False, loop.time() + _READ_SECONDS
        for feed in list(self._marked):
            # A copy: the follower may subscribe another log of the family, or leave one, while a thread reads.
            for log in list(feed.logs.values()):
                if log.read_ahead is not None:
                    bytes_left -= log.read_ahead.bytes
                    continue
                if log.cold_upper <= log.next_offset:
                    continue
                if bytes_left <= 0 or (has_read and loop.time() > ends_s):
                    # It has its turn once this round is on its way.
                    return
                upper, log.cold_upper, has_read = log.cold_upper, -1, True
                try:
                    log.read_ahead = await self._offload(partial(_read_on_thread, log, upper))
                except OffsetOutOfRange:
                    if not feed.is_over:
                        self._reset_fallen_behind(feed)
                except (GoQueueError, OSError) as error:
                    feed.led.sick = feed.led.sick or str(error)
                    self._marked.pop(feed, None)
                    break
                else:
                    bytes_left -= log.read_ahead.bytes

    def _reset_fallen_behind(self, feed: FamilyFeed) -> None:
        """Retention, or compaction, took what the follower does not have: it begins anew at our start."""
        for kind, log in list(feed.logs.items()):
            ours = log.writer.log
            if log.next_offset < ours.start_offset or lacks_tombstones(ours, log.next_offset, log.sent_tombstones):
                del feed.logs[kind]
                self._places.pop(log.subscription, None)
                gone_to = ours.tombstones_gone_to
                # While it may still be elected it subscribes again later, and is told then.
                must_wait = self._terms.must_leave_first(feed.led, self._follower)
                status = Status.REFUSED if must_wait else Status.RESET
                self._say(Answer(log.subscription, status, -1, ours.start_offset, tombstones_gone_to=gone_to))


def _read_on_thread(log: LogFeed, upper: int) -> Read:
    return log.writer.log.read_frames(log.next_offset, max_bytes=ROUND_BYTES_MAX, upper=upper)
