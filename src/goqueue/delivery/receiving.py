"""Receiving: messages of several places in one answer, each place its share and each lane its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from goqueue.broker.reading.waiters import Waiter
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import DeliveryConfig
from goqueue.delivery.lanes.group_lanes import GroupLanes, LanePlan, Quotas, in_turn
from goqueue.delivery.leases.taker import Wanted
from goqueue.delivery.parts import DeliveryParts
from goqueue.delivery.policy import DeliveryPolicy, Policies
from goqueue.delivery.settlement.settler import check_visibility
from goqueue.delivery.shards import UNUSABLE
from goqueue.delivery.state.commands import OpenQueue
from goqueue.delivery.state.records import QueueId
from goqueue.delivery.values import (
    RECEIVE_BYTES_MAX,
    AcquiredRange,
    Action,
    Delivery,
    GroupSettings,
    GroupSettingsOf,
    Receive,
    Settlement,
    Start,
)
from goqueue.errors import (
    CoordinatorUnavailable,
    InternalTopic,
    InvalidRequest,
    NotEnoughReplicas,
    NotLeader,
    StorageError,
)
from goqueue.ids import parse_group_id
from goqueue.records import TopicPartition

# Why this node may not speak for what it leads: another may lead it by now. None if it may.
SessionProblem = Callable[[], str | None]

# How long to wait for messages while a partition cannot be read: it may be usable again.
_TROUBLE_SECONDS = 1.0


class Receiver:
    """Leases messages for whoever asks, and waits for them."""

    def __init__(
        self,
        parts: DeliveryParts,
        *,
        config: DeliveryConfig,
        topics: TopicService,
        partitions: Partitions,
        group_settings: GroupSettingsOf,
        clock: Clock,
        session_problem: SessionProblem | None = None,
    ) -> None:
        """`session_problem` says, in a cluster, why this node may not speak for what it leads."""
        self._session_problem = session_problem
        self._shards = parts.shards
        self._queues = parts.queues
        self._taker = parts.taker
        self._settler = parts.settler
        self._agreement = parts.agreement
        self._acquired_reads = parts.acquired_reads
        self._redriven = parts.redriven
        self._config = config
        self._topics = topics
        self._partitions = partitions
        self._group_settings = group_settings
        self._clock = clock
        self._policies = Policies(config)
        self._turn = 0
        self._group_lanes = GroupLanes()

    async def receive(self, request: Receive) -> list[Delivery]:
        """Up to `limit` messages, waiting for the first if asked. Cancelled while it waits, it has leased nothing."""
        self._check_receive(request)
        deadline = asyncio.get_running_loop().time() + request.wait_ms / 1000
        while True:
            # Each time: the group may be deleted while somebody waits, and made again.
            settings = await self._group_settings(request.group)
            wanted, trouble = await self._usable(request, settings)
            self._check_session()
            found = await self._take_from(request, wanted)
            self._check_session()
            seconds_left = deadline - asyncio.get_running_loop().time()
            if found:
                return found
            if seconds_left <= 0:
                if trouble is not None:
                    # There may be messages: to say that there are none would hide it.
                    raise trouble
                return found
            await self._wait(wanted, seconds_left if trouble is None else min(seconds_left, _TROUBLE_SECONDS))

    def _check_session(self) -> None:
        """Another node may lead what this one does, and may have given these messages out and had them settled.

        It is looked at before anything is leased, so that mostly nothing is, and when the answer is given.
        """
        problem = None if self._session_problem is None else self._session_problem()
        if problem is not None:
            raise NotLeader(f"another node may deliver these messages: {problem}")

    async def acquire(
        self,
        group: str,
        at: TopicPartition,
        consumer: str,
        *,
        limit: int,
        visibility_ms: int | None = None,
        quotas: Quotas | None = None,
        whole_batches: bool = False,
    ) -> list[AcquiredRange]:
        """Lease messages for a consumer that reads them by itself: runs of neighbours, no receipts.

        `quotas` are those of `lane_quotas`: how many of each lane. With `whole_batches` there may be more than `limit`,
        up to the end of the last batch, but never more than the consumer may hold.
        """
        limit = min(limit, self._config.receive_max)
        request = Receive(group, consumer, [at], limit, RECEIVE_BYTES_MAX, 0, visibility_ms)
        self._check_receive(request)
        wanted = await self._wanted(request, at, await self._group_settings(group))
        free = wanted.policy.in_flight_max - self._queues.in_flight(group, consumer)
        room = min(limit, free)
        if room <= 0:
            self._queues.note_crowded(group)
            return []
        addressed = await self._redriven.reaches(at.topic)
        wanted = wanted._replace(limit=room, may_be_addressed=addressed, quotas=quotas)
        if whole_batches and quotas is None:
            batch_end = partial(self._acquired_reads.batch_end, wanted.queue_id, wanted.partition)
            wanted = wanted._replace(batch_end=batch_end, limit_max=min(free, self._config.receive_max))
        self._check_session()
        granted = await self._taker.acquire(wanted)
        self._check_session()
        ranges = [
            AcquiredRange(one.ranges[at], one.ranges[at + 1], one.count)
            for one in granted
            for at in range(0, len(one.ranges), 2)
        ]
        return _merged(sorted(ranges))

    async def lane_quotas(
        self, group: str, places: Sequence[TopicPartition], consumer: str, limit: int
    ) -> Mapping[TopicPartition, Quotas] | None:
        """How many messages of each lane each place is to give; None when only one lane waits, or in one place."""
        if len(places) < 2:
            return None
        request = Receive(group, consumer, places, limit)
        settings = await self._group_settings(group)
        wanted, _ = await self._usable(request, settings)
        lanes = await self._lane_plan(group, wanted, limit)
        return None if lanes is None else {one.partition.key: q for one, q in zip(wanted, lanes.quotas, strict=True)}

    async def wait(self, group: str, places: Sequence[TopicPartition], wait_ms: int) -> None:
        """Sleep until one of the places may have something for the group, or the time is up."""
        request = Receive(group, "", places, 1)
        settings = await self._group_settings(group)
        wanted, trouble = await self._usable(request, settings)
        await self._wait(wanted, wait_ms / 1000 if trouble is None else min(wait_ms / 1000, _TROUBLE_SECONDS))

    def policy(self, topic: str, settings: GroupSettings) -> DeliveryPolicy:
        """What a group with these settings gets on the topic."""
        return self._policies.of(topic, self._topics.config(topic), settings.wishes)

    def _check_receive(self, request: Receive) -> None:
        parse_group_id(request.group)
        if not 1 <= request.limit <= self._config.receive_max:
            raise InvalidRequest(
                f"a receive takes 1 to {self._config.receive_max} messages, not {request.limit}", field="limit"
            )
        if request.visibility_ms is not None:
            check_visibility(request.visibility_ms)

    async def _usable(
        self, request: Receive, settings: GroupSettings
    ) -> tuple[list[Wanted], CoordinatorUnavailable | StorageError | None]:
        """What can be received from, and why not everything can: a damaged log does not stop the other partitions."""
        wanted: list[Wanted] = []
        trouble: CoordinatorUnavailable | StorageError | None = None
        for place in request.places:
            try:
                wanted.append(await self._wanted(request, place, settings))
            except UNUSABLE as error:
                trouble = trouble or error
        if trouble is not None and not wanted:
            raise trouble
        return wanted, trouble

    async def _wanted(self, request: Receive, place: TopicPartition, settings: GroupSettings) -> Wanted:
        partition = await self._partitions.open_leader(*place)
        if partition.internal:
            raise InternalTopic(place.topic)
        try:
            self._partitions.check_copies(*place)
        except NotEnoughReplicas as problem:
            # Nobody could acknowledge them, and each would count as delivered again and again.
            raise CoordinatorUnavailable(f"no messages are delivered: {problem}") from problem
        policy = self.policy(place.topic, settings)
        queue_id = QueueId(request.group, partition.topic_id, place.partition)
        queue = self._queues.find(queue_id)
        if queue is None or queue.incarnation != settings.incarnation:
            await self._open(queue_id, partition)
        await self._agreement.reach(queue_id, partition)
        visibility_ms = policy.visibility_ms if request.visibility_ms is None else request.visibility_ms
        return Wanted(queue_id, partition, request.consumer, 0, request.max_bytes, visibility_ms, policy)

    async def _open(self, queue_id: QueueId, partition: Partition) -> None:
        # Asked again: nothing is forgotten on the word of settings that are out of date.
        settings = await self._group_settings(queue_id.group)
        log = partition.log
        stays = settings.start is Start.LATEST
        start = log.last_stable_offset if stays else log.start_offset
        command = OpenQueue(queue_id, start, stays, partition.leader_epoch, settings.incarnation)
        if await self._shards.submit(queue_id, command):
            await self._shards.submit(queue_id, command)

    async def _take_from(self, request: Receive, wanted: Sequence[Wanted]) -> list[Delivery]:
        """In turn from the places, each its share first, then whoever has more."""
        if not wanted:
            return []
        room = min(one.policy.in_flight_max for one in wanted) - self._queues.in_flight(request.group, request.consumer)
        left = min(request.limit, room)
        if left <= 0:
            self._queues.note_crowded(request.group)
        self._turn += 1
        start = self._turn % len(wanted)
        order = [*wanted[start:], *wanted[:start]]
        lanes = await self._lane_plan(request.group, order, left) if len(order) > 1 else None
        if lanes is not None and (urgent := await self._take_in_turn(order, lanes, request.max_bytes)):
            return urgent
        found: list[Delivery] = []
        max_bytes = request.max_bytes
        # Those that could fill their share, and may have more.
        filled: list[Wanted] = []
        try:
            for number, one in enumerate(order):
                share = -(-left // (len(order) - number))
                if share <= 0 or max_bytes <= 0:
                    break
                got = await self._taker.take(one._replace(limit=share, max_bytes=max_bytes))
                left -= len(got)
                max_bytes -= _size(got) if len(order) > 1 else 0
                found += got
                if len(got) == share:
                    filled.append(one)
            for one in filled:
                if left <= 0 or max_bytes <= 0:
                    break
                got = await self._taker.take(one._replace(limit=left, max_bytes=max_bytes))
                left -= len(got)
                max_bytes -= _size(got)
                found += got
        except BaseException:
            if found:
                self._give_back(found)
            raise
        return found

    async def _lane_plan(self, group: str, wanted: Sequence[Wanted], limit: int) -> LanePlan | None:
        """What each place is to give of each lane; None when only one lane waits."""
        if limit <= 0:
            return None
        # One more than is wanted: a lane that has more keeps its turn, one that is emptied loses it.
        available = [await self._taker.lanes_available(one._replace(limit=limit + 1)) for one in wanted]
        policies = [one.policy for one in wanted]
        readers = (group, frozenset(one.queue_id.topic_id for one in wanted))
        return self._group_lanes.plan(readers, available, limit, self._clock.now_ms(), policies)

    async def _take_in_turn(self, order: Sequence[Wanted], lanes: LanePlan, max_bytes: int) -> list[Delivery]:
        """Take what the plan says; lane after lane where priority is strict, so that no lesser one takes the bytes."""
        is_strict = order[0].policy.strict_priority
        steps = sorted({lane for lane, _ in lanes.picks}) if is_strict else [None]
        found: list[Delivery] = []
        try:
            for lane in steps:
                for one, quotas in zip(order, lanes.quotas, strict=True):
                    mine = quotas if lane is None else tuple(n if at == lane else 0 for at, n in enumerate(quotas))
                    if sum(mine) and max_bytes > 0:
                        got = await self._taker.take(one._replace(limit=sum(mine), max_bytes=max_bytes, quotas=mine))
                        max_bytes -= _size(got)
                        found += got
        except BaseException:
            if found:
                self._give_back(found)
            raise
        return in_turn(lanes.picks, found)

    def _give_back(self, found: Sequence[Delivery]) -> None:
        """Whoever asked is gone, or another partition failed: nobody will answer for these."""
        self._shards.later(
            self._settler.settle([Settlement(one.receipt, Action.RELEASE) for one in found], durable=False)
        )

    async def _wait(self, wanted: Sequence[Wanted], seconds: float) -> None:
        places = [one.partition.waiters for one in wanted]
        places += [self._queues.desk(one.queue_id).waiters for one in wanted]
        await Waiter(1).wait(places, seconds)


def _size(found: Sequence[Delivery]) -> int:
    """Roughly what they take in an answer."""
    return sum(len(one.value or b"") + len(one.key or b"") + 32 for one in found)


def _merged(ranges: Sequence[AcquiredRange]) -> list[AcquiredRange]:
    merged: list[AcquiredRange] = []
    for one in ranges:
        if merged and merged[-1].last == one.first - 1 and merged[-1].delivery_count == one.delivery_count:
            merged[-1] = AcquiredRange(merged[-1].first, one.last, one.delivery_count)
        else:
            merged.append(one)
    return merged
