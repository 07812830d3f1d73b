"""What a leader knows of its followers, in one term of one partition. No I/O and no clock.

The in-sync replicas (ISR) are the partition's; positions are each log's. At the start of a term no position is known.
While the outcome of a change of the ISR is not known, whoever is in the old or in the proposed ISR counts for what is
committed, and only who is in both counts for `min.insync.replicas`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from goqueue.records import LogKind, TopicPartition

UNKNOWN = -1


class Position:
    """How far one follower has one log, as it said in this term under its present session, on one subscription."""

    __slots__ = ("_mark_end", "_mark_ms", "_mark_sync", "caught_up_ms", "subscription", "synced_end", "written_end")

    def __init__(self, now_ms: int) -> None:
        # Which subscription it is of: those of one follower have rising numbers, on whatever connection.
        self.subscription = 0
        self.written_end = UNKNOWN
        self.synced_end = UNKNOWN
        # When it last had everything that the leader had at that moment.
        self.caught_up_ms = now_ms
        # At `_mark_ms` the leader's log ended at `_mark_end`, and somebody waited for syncs up to `_mark_sync`.
        self._mark_end = 0
        self._mark_sync = 0
        self._mark_ms = now_ms

    def report(self, written_end: int, synced_end: int, log: LogTerm, now_ms: int) -> None:
        """The follower said how far it is."""
        self.written_end, self.synced_end = written_end, synced_end
        if written_end >= self._mark_end and synced_end >= self._mark_sync:
            self.caught_up_ms = max(self.caught_up_ms, self._mark_ms)
            self._mark_end, self._mark_sync, self._mark_ms = log.end(), log.sync_wanted, now_ms
        if self.is_at_end(log):
            self.caught_up_ms = now_ms

    def is_at_end(self, log: LogTerm) -> bool:
        """Whether it has everything that the leader has, and has synced what somebody waits for."""
        return self.written_end >= log.end() and self.synced_end >= log.sync_wanted


class LogTerm:
    """One log of the family in this term."""

    __slots__ = (
        "_high_watermark",
        "acknowledged_end",
        "acks_written",
        "began_ms",
        "end",
        "kind",
        "own_synced_end",
        "positions",
        "start_end",
        "sync_wanted",
    )

    def __init__(
        self,
        kind: LogKind,
        *,
        end: Callable[[], int],
        own_synced_end: Callable[[], int],
        high_watermark: Callable[[], int],
        acks_written: bool = False,
    ) -> None:
        self.kind = kind
        # Whether acks=all is given for what is written, and not only for what is synced.
        self.acks_written = acks_written
        # Of the leader's own log.
        self.end = end
        self.own_synced_end = own_synced_end
        self._high_watermark = high_watermark
        # Where it ended when the term began: until the high watermark is there, it is not known what is committed.
        self.start_end = end()
        self.positions: dict[int, Position] = {}
        # Somebody waits until everything below is synced by the in-sync replicas.
        self.sync_wanted = 0
        # Up to here all that was asked for was acknowledged in this term, or could have been.
        self.acknowledged_end = UNKNOWN
        # When it was opened. Of one that is made in the middle of a term, followers are not behind since its beginning.
        self.began_ms = 0

    def written_by(self, followers: tuple[int, ...]) -> int:
        """Up to where the leader and all these have written; UNKNOWN if one of them has not said."""
        low = self.end()
        for follower in followers:
            position = self.positions.get(follower)
            if position is None:
                return UNKNOWN
            low = min(low, position.written_end)
        return low

    def synced_by(self, followers: tuple[int, ...]) -> int:
        """Up to where the leader and all these have synced; UNKNOWN if one of them has not said."""
        low = self.own_synced_end()
        for follower in followers:
            position = self.positions.get(follower)
            if position is None:
                return UNKNOWN
            low = min(low, position.synced_end)
        return low

    def safe_by(self, followers: tuple[int, ...]) -> int:
        """Up to where acks=all can be given, if these are enough."""
        return self.written_by(followers) if self.acks_written else self.synced_by(followers)

    @property
    def high_watermark(self) -> int:
        """What may be read now."""
        return self._high_watermark()


class PartitionTerm:
    """The followers of one partition in one term."""

    def __init__(
        self,
        place: TopicPartition,
        topic_id: UUID,
        *,
        node_id: int,
        leader_epoch: int,
        isr: tuple[int, ...],
        partition_epoch: int,
        now_ms: int,
    ) -> None:
        self.place = place
        self.topic_id = topic_id
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = frozenset(isr)
        self.proposed: frozenset[int] | None = None
        self.logs: dict[LogKind, LogTerm] = {}
        # Kinds of which there is a log, open or not: a follower is in sync when it has all of them.
        self.kinds: set[LogKind] = {LogKind.DATA}
        # Logs of followers that are damaged, and followers that must be out of sync before they copy one anew.
        self.unsound: dict[int, set[LogKind]] = {}
        self.resetting: set[int] = set()
        # The session and the number of the last subscription of each follower's logs, well answered or not.
        self._heard: dict[tuple[int, LogKind], tuple[int, int]] = {}
        # The session under which each follower subscribed.
        self.broker_epochs: dict[int, int] = {}
        self.began_ms = now_ms
        # Followers whose position counts for what is committed, the leader not among them.
        self.counted: tuple[int, ...] = ()
        # In-sync replicas that are certain to be such, for `min.insync.replicas`.
        self.certain = 0
        self._count()

    def take_isr(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """The metadata says who is in sync. A proposal that was worked out before can never be made any more."""
        self.isr, self.partition_epoch, self.proposed = frozenset(isr), partition_epoch, None
        self._count()

    def propose(self, isr: frozenset[int]) -> None:
        """A change was sent, and nobody knows yet whether it was made."""
        self.proposed = isr
        self._count()

    def withdraw(self) -> None:
        """The proposal was refused, and will not be made later either."""
        self.proposed = None
        self._count()

    def subscribe(
        self, follower: int, kind: LogKind, broker_epoch: int, end: int, now_ms: int, *, subscription: int = 0
    ) -> None:
        """A follower's log was matched with ours up to `end`. What it said under an earlier session is void.

        Nothing is known to be synced: bytes that a crash might take are in its log, too.
        """
        if self.broker_epochs.get(follower) != broker_epoch:
            self.broker_epochs[follower] = broker_epoch
            for log in self.logs.values():
                log.positions.pop(follower, None)
        log = self.logs[kind]
        position = log.positions.get(follower)
        if position is None:
            position = log.positions[follower] = Position(max(self.began_ms, log.began_ms))
        position.subscription = subscription
        position.report(end, UNKNOWN, log, now_ms)

    def hears(self, follower: int, kind: LogKind, broker_epoch: int, subscription: int) -> bool:
        """Whether this is the last subscription of a follower's log, as far as is known; False if it comes late.

        One that comes late, on a connection that was given up, is of a log that may have been cut or emptied since.
        """
        session, last = self._heard.get((follower, kind), (broker_epoch, subscription))
        if session == broker_epoch and last > subscription:
            return False
        self._heard[follower, kind] = broker_epoch, subscription
        return True

    def void(self, follower: int, kind: LogKind) -> None:
        """A follower's log is about to be cut or emptied: what was said of it before does not count any more."""
        self.logs[kind].positions.pop(follower, None)

    def note_soundness(self, follower: int, kind: LogKind, *, is_sound: bool, wants_reset: bool) -> None:
        """A follower said whether its log can be read."""
        kinds = self.unsound.setdefault(follower, set())
        if is_sound:
            kinds.discard(kind)
            if not kinds:
                del self.unsound[follower]
                self.resetting.discard(follower)
        else:
            kinds.add(kind)
            if wants_reset:
                self.resetting.add(follower)

    def note_caught_up(self, followers: Collection[int], now_ms: int) -> None:
        """These count as caught up at this moment."""
        for log in self.logs.values():
            for follower in followers:
                position = log.positions.get(follower)
                if position is not None:
                    position.caught_up_ms = now_ms

    def counts_on(self, follower: int) -> bool:
        """Whether a follower is in sync, or will be if a change is made that is on its way."""
        return follower in self.isr or (self.proposed is not None and follower in self.proposed)

    def is_caught_up(self, follower: int) -> bool:
        """Whether a follower may join the ISR: it has all that is committed, of every log of the family, undamaged."""
        if follower in self.unsound:
            return False
        for kind in self.kinds:
            log = self.logs.get(kind)
            position = None if log is None else log.positions.get(follower)
            if log is None or position is None:
                return False
            # What was acknowledged is synced by all of the ISR, and must be by whoever joins it.
            if position.written_end < max(log.high_watermark, log.start_end):
                return False
            if not log.acks_written and position.synced_end < self._synced_to_join(log):
                return False
        return True

    def sync_wanted_of(self, follower: int, log: LogTerm) -> int:
        """Up to where a follower is asked to sync at once."""
        if log.acks_written or follower in self.isr:
            return log.sync_wanted
        return max(log.sync_wanted, self._synced_to_join(log))

    def _synced_to_join(self, log: LogTerm) -> int:
        """What a follower must have synced before it may join the ISR: at least all that was acknowledged.

        In this term, what all of the ISR have synced, and what was acknowledged: a member of the ISR that has just
        connected again has not said yet what it has synced. What was acknowledged in earlier terms lies below
        `start_end`; the ISR have it on their disks, but after a restart a log does not know how far it is synced.
        """
        return max(log.synced_by(self.counted), log.start_end, log.acknowledged_end)

    def lag_ms(self, follower: int, now_ms: int) -> int:
        """For how long a follower has been behind; 0 if it is not."""
        lag_ms = 0
        for kind in self.kinds:
            log = self.logs.get(kind)
            if log is None:
                continue
            position = log.positions.get(follower)
            if position is None:
                lag_ms = max(lag_ms, now_ms - max(self.began_ms, log.began_ms))
            elif position.is_at_end(log):
                # While nothing is written it says nothing, and what is written next is not behind since it last spoke.
                position.caught_up_ms = now_ms
            else:
                lag_ms = max(lag_ms, now_ms - position.caught_up_ms)
        return lag_ms

    def _count(self) -> None:
        counted = self.isr if self.proposed is None else self.isr | self.proposed
        certain = self.isr if self.proposed is None else self.isr & self.proposed
        self.counted = tuple(sorted(counted - {self.node_id}))
        self.certain = len(certain)
