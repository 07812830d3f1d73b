"""FollowerStream: the follower's end of a replication stream, with all partitions that one other node leads.

It connects while there is something to follow, subscribes every log, writes rounds in the order in which they come, and
reports once per written and once per synced round. A log that the leader refuses or that cannot be written is
subscribed again after a while; the others are not held up by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial

import msgspec

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.partition_files import log_name
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.roles import Following
from goqueue.cluster.network import PeerConnection, PeerNetwork
from goqueue.cluster.replication import messages
from goqueue.cluster.replication.counts import CopyCounts
from goqueue.cluster.replication.messages import Answer, Member, Progress, Round, Status, Unsubscribe
from goqueue.cluster.replication.replica_log import AGAIN_S_FIRST, AGAIN_S_MAX, ReplicaLog, tell_failure
from goqueue.errors import FencedLeaderEpoch, NotLeader, PeerUnreachable
from goqueue.ports import Buffer, Offload
from goqueue.records import LogKind, TopicPartition

_log = logging.getLogger("goqueue.cluster")

OPENINGS_AT_ONCE_MAX = 16
_RECONNECT_S_FIRST = 0.05
_RECONNECT_S_MAX = 1.0
# So long a round may hold the event loop before something else has its turn.
_HOLD_S_MAX = 0.02


class FollowerStream:
    """The way from one leader to this node."""

    def __init__(
        self,
        leader: int,
        *,
        purpose: int,
        network: PeerNetwork,
        partitions: Partitions,
        syncer: Syncer,
        offload: Offload,
        broker_epoch: Callable[[], int],
        counts: CopyCounts,
        numbers: Iterator[int],
    ) -> None:
        self._leader = leader
        self._purpose = purpose
        self._network = network
        self._partitions = partitions
        self._syncer = syncer
        self._offload = offload
        self._broker_epoch = broker_epoch
        self._counts = counts
        # The partitions to follow, with the leader epoch.
        self._wanted: dict[TopicPartition, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._connection: PeerConnection | None = None
        # Of the present connection, by number of subscription.
        self._logs: dict[int, ReplicaLog] = {}
        self._families: dict[TopicPartition, dict[LogKind, ReplicaLog]] = {}
        # Of all streams of this node together: the leader tells by them which subscription of a log is the last one.
        self._numbers = numbers
        # In the order in which it began: a set would make every run of a simulation another.
        self._work: dict[asyncio.Task[None], None] = {}
        self._openings = asyncio.Semaphore(OPENINGS_AT_ONCE_MAX)
        self._outbox: deque[list[Buffer]] = deque()
        self._unreported: dict[ReplicaLog, None] = {}
        self._owes_round = False
        self._round = 0
        self._wake = asyncio.Event()

    def follow(self, place: TopicPartition, leader_epoch: int) -> None:
        """Copy a partition in this term."""
        if self._wanted.get(place) == leader_epoch:
            return
        self._forget(place)
        self._wanted[place] = leader_epoch
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._connection is not None:
            self._begin(place, leader_epoch)

    def unfollow(self, place: TopicPartition) -> None:
        """Copy a partition no more."""
        if self._wanted.pop(place, None) is not None:
            self._forget(place)

    def unfollow_topic(self, name: str) -> None:
        """The topic is gone."""
        for place in [place for place in self._wanted if place.topic == name]:
            self.unfollow(place)

    def resubscribe(self, place: TopicPartition) -> None:
        """Tell the leader anew how the logs of a partition stand here."""
        for log in list(self._families.get(place, {}).values()):
            if self._connection is not None and log.is_current and not log.log.busy_with:
                self._say(Unsubscribe(log.subscription))
                self._ask(log)

    def renew(self) -> None:
        """The session of this node is another: subscribe everything under it."""
        if self._connection is not None:
            self._connection.close()

    async def close(self) -> None:
        """End the stream."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- the connection -------------------------------------------------------------------

    async def _run(self) -> None:
        wait_s = _RECONNECT_S_FIRST
        try:
            while self._wanted:
                pause_s = _RECONNECT_S_FIRST
                try:
                    connection = await self._network.connect(self._leader, self._purpose)
                    wait_s = _RECONNECT_S_FIRST
                    await self._serve(connection)
                except PeerUnreachable as error:
                    _log.debug("%s", error)
                    pause_s, wait_s = wait_s, min(wait_s * 2, _RECONNECT_S_MAX)
                except Exception:  # noqa: BLE001 - without this loop nothing would ever be copied from that node again
                    _log.exception("the stream from node %d failed, and begins anew", self._leader)
                    pause_s = _RECONNECT_S_MAX
                await asyncio.sleep(pause_s)
        finally:
            self._task = None

    async def _serve(self, connection: PeerConnection) -> None:
        self._connection = connection
        self._logs, self._families, self._round, self._owes_round = {}, {}, 0, False
        self._outbox.clear()
        self._unreported.clear()
        sending = asyncio.create_task(self._send(connection))
        for place, leader_epoch in list(self._wanted.items()):
            self._begin(place, leader_epoch)
        try:
            while self._wanted and (data := await connection.receive()) is not None:
                message, frames = messages.decode_from_leader(data)
                match message:
                    case Round():
                        await self._take_round(message, frames)
                        # Rounds that are here already are taken without waiting for anything: without this, a replica
                        # that catches up would keep the loop from renewing the session of its node.
                        await asyncio.sleep(0)
                    case Answer():
                        self._take_answer(message)
                    case Member(subscription, kind):
                        self._take_member(subscription, kind)
        except msgspec.DecodeError as error:
            _log.warning("the replication stream to node %d is closed: %s", self._leader, error)
        finally:
            self._connection = None
            connection.close()
            work = [sending, *self._work]
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _send(self, connection: PeerConnection) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._outbox:
                    await connection.send(self._outbox.popleft())
                if self._owes_round or self._unreported:
                    await connection.send(messages.encode(self._progress()))
        except PeerUnreachable:
            pass
        except Exception:  # noqa: BLE001 - a leader that hears nothing more would wait, and somebody must learn why
            _log.exception("nothing more can be sent to node %d on this connection", self._leader)
        finally:
            connection.close()

    def _progress(self) -> Progress:
        self._owes_round = False
        reported, self._unreported = self._unreported, {}
        return Progress(self._round, tuple(log.reached() for log in reported if log.is_matched and log.is_current))

    def _say(self, message: messages.FromFollower) -> None:
        self._outbox.append(messages.encode(message))
        self._wake.set()

    # --- subscribing ----------------------------------------------------------------------

    def _begin(self, place: TopicPartition, leader_epoch: int) -> None:
        self._spawn(self._open(place, leader_epoch))

    async def _open(self, place: TopicPartition, leader_epoch: int) -> None:
        """Open the family and subscribe its logs."""

        async def work() -> Sequence[LogKind]:
            async with self._openings:
                await self._partitions.opened(place)
                kinds = [kind for kind in LogKind if kind and self._partitions.has_member(place, kind)]
                for kind in kinds:
                    await self._partitions.follow_member(place, kind)
            return (*reversed(kinds), LogKind.DATA)

        await self._until_subscribed(place, leader_epoch, work)

    async def _until_subscribed(
        self, place: TopicPartition, leader_epoch: int, work: Callable[[], Awaitable[Sequence[LogKind]]]
    ) -> None:
        """Open logs and subscribe them; whatever is the matter with those of one partition stops no other."""
        wait_s = AGAIN_S_FIRST
        while self._wanted.get(place) == leader_epoch:
            try:
                kinds = await work()
                # Another log of the family may be cut by now: whoever asks for the partition would do that on the loop.
                await self._partitions.opened(place)
                for kind in kinds:
                    self._subscribe(place, leader_epoch, kind)
            except Exception as error:  # noqa: BLE001
                tell_failure(f"a log of {place} cannot be opened to follow node {self._leader}", error)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, AGAIN_S_MAX)
            else:
                return

    def _subscribe(self, place: TopicPartition, leader_epoch: int, kind: LogKind) -> None:
        if self._wanted.get(place) != leader_epoch:
            return
        partition = self._partitions.replica(*place)
        member = partition.member(kind)
        role = partition.role
        if member is None or not isinstance(role, Following) or role.epoch != leader_epoch:
            return
        former = self._families.setdefault(place, {}).get(kind)
        if former is not None:
            self._logs.pop(former.subscription, None)
        log = self._families[place][kind] = ReplicaLog(partition, member, leader_epoch, self._syncer)
        self._ask(log)

    def _ask(self, log: ReplicaLog) -> None:
        self._logs.pop(log.subscription, None)
        number = next(self._numbers)
        self._logs[number] = log
        self._say(log.subscribe(number, self._broker_epoch()))

    def _take_answer(self, answer: Answer) -> None:
        log = self._logs.get(answer.subscription)
        if log is None or not log.is_current:
            return
        if answer.status is Status.OK:
            log.is_matched = True
            log.note_tombstones_gone(answer.tombstones_gone_to)
            self._unreported[log] = None
            self._wake.set()
        elif answer.status is Status.REFUSED:
            _log.debug("node %d does not serve %s: %s", self._leader, log.partition.key, answer.reason)
            self._again(log)
        else:
            log.is_matched = False
            self._spawn(self._agree(log, answer))

    async def _agree(self, log: ReplicaLog, answer: Answer) -> None:
        before, is_damaged = log.log.end_offset, bool(log.log.damage)
        what = f"it is cut to what node {self._leader} has"
        try:
            await self._partitions.rework(log.partition, log.kind, what, partial(log.agree, answer, self._counts.cut))
        except NotLeader:
            # It leads by now, or has no replica: the stream is told as well.
            return
        except Exception as error:  # noqa: BLE001 - no other partition is stopped by it
            tell_failure(f"{log.partition.key} cannot be cut to what node {self._leader} has", error)
            self._again(log)
            return
        if is_damaged and answer.status is Status.RESET:
            self._partitions.repairs.resets += 1
            name = log_name(log.log.directory)
            _log.warning("%s was damaged and is compacted: it is copied anew from node %d", name, self._leader)
        place, end = log.partition.key, log.log.end_offset
        _log.info(
            "%s was truncated from offset %d to %d, to match its leader, node %d", place, before, end, self._leader
        )
        if log.is_current:
            self._ask(log)

    def _take_member(self, subscription: int, kind: LogKind) -> None:
        data = self._logs.get(subscription)
        if data is None or kind in self._families.get(data.partition.key, ()):
            return

        async def work() -> Sequence[LogKind]:
            await self._partitions.follow_member(data.partition.key, kind)
            return (kind,)

        self._spawn(self._until_subscribed(data.partition.key, data.leader_epoch, work))

    def _again(self, log: ReplicaLog, wait_s: float | None = None) -> None:
        """Subscribe once more after a while."""
        log.is_matched = False
        subscription = log.subscription

        async def work() -> None:
            await asyncio.sleep(log.next_wait_s() if wait_s is None else wait_s)
            if log.log.poisoned and log.is_current:
                await self._reopen(log)
            elif log.subscription == subscription and log.is_current and subscription in self._logs:
                self._say(Unsubscribe(subscription))
                self._ask(log)

        self._spawn(work())

    async def _reopen(self, log: ReplicaLog) -> None:
        """A log of the family takes no more writes: recover all of them, and subscribe anew."""
        place, leader_epoch = log.partition.key, log.leader_epoch
        if self._families.get(place, {}).get(log.kind) is not log:
            return
        _log.warning("%s takes no more writes and is recovered again: %s", place, log.log.poison)
        self._forget(place)
        try:
            await self._partitions.reopen(log.partition)
        except Exception as error:  # noqa: BLE001 - no other partition is stopped by it
            tell_failure(f"{place} cannot be recovered", error)
        if self._wanted.get(place) == leader_epoch:
            self._begin(place, leader_epoch)

    def _forget(self, place: TopicPartition) -> None:
        for log in self._families.pop(place, {}).values():
            self._logs.pop(log.subscription, None)
            self._unreported.pop(log, None)
            if self._connection is not None:
                self._say(Unsubscribe(log.subscription))

    # --- rounds ---------------------------------------------------------------------------

    async def _take_round(self, message: Round, frames: memoryview) -> None:
        at, loop = 0, asyncio.get_running_loop()
        began_s = turn_s = loop.time()
        failed: set[TopicPartition] = set()
        for part in message.logs:
            mine, at = frames[at : at + part.size], at + part.size
            if loop.time() - turn_s > _HOLD_S_MAX:
                # A round without frames may have all logs: where each of them has to begin a segment, or to write down
                # that its start has moved, that is many syncs.
                await asyncio.sleep(0)
                turn_s = loop.time()
            log = self._logs.get(part.subscription)
            if log is None or not log.is_matched or not log.is_current or log.partition.key in failed:
                continue
            try:
                if part.size:
                    await log.prepare(self._offload)
                    self._check_family(log)
                log.take(part, mine, self._synced)
            except Exception as error:  # noqa: BLE001 - no other partition is stopped by it
                # Nothing behind it in the family may be written: data without its slots would be a loss.
                failed.add(log.partition.key)
                level = logging.WARNING if log.wait_s == AGAIN_S_FIRST else logging.DEBUG
                tell_failure(f"{log.partition.key} does not take what node {self._leader} sent", error, level)
                self._fall_back(log)
            else:
                self._counts.took(log.partition.key.topic, part.size)
                self._unreported[log] = None
        self._counts.took_round(self._leader, loop.time() - began_s)
        self._round, self._owes_round = message.number, True
        self._wake.set()

    def _check_family(self, log: ReplicaLog) -> None:
        """Refuse data while another log of the family is not matched: what was sent of that one was not written.

        The leader does not know so yet, and the data would be a hole without its slot.
        """
        family = self._families.get(log.partition.key, {})
        if log.kind is LogKind.DATA and not all(one.is_matched for one in family.values()):
            raise FencedLeaderEpoch(f"another log of {log.partition.key} has not been matched with the leader's")

    def _fall_back(self, failed: ReplicaLog) -> None:
        """Match every log of the family anew, all of them at once: the data is of no use without the others."""
        logs = self._families.get(failed.partition.key, {})
        wait_s = max((log.next_wait_s() for log in logs.values()), default=AGAIN_S_FIRST)
        for _, log in sorted(logs.items(), reverse=True):
            self._again(log, wait_s)

    def _synced(self, log: ReplicaLog) -> None:
        if not log.is_matched or not log.is_current or self._logs.get(log.subscription) is not log:
            return
        if log.log.poisoned or log.has_failed_sync:
            self._fall_back(log)
            return
        self._unreported[log] = None
        self._wake.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._work[task] = None
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        del self._work[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # What it was to do for one log would never be done: everything is subscribed anew.
            _log.error("the stream from node %d failed, and begins anew", self._leader, exc_info=error)
            if self._connection is not None:
                self._connection.close()
