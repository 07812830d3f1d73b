"""DeliveryService: what front-ends call. Messages out with receipts, receipts back in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.topics import TopicService
from goqueue.broker.unreadable import Unreadable
from goqueue.broker.waiters import Waiter
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock, Rng
from goqueue.config import DeliveryConfig
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.agreement import Agreement
from goqueue.delivery.commands import (
    FreshShare,
    Govern,
    OpenQueue,
    ReleaseConsumer,
    SetAside,
    SetAsideHeld,
    SettleHeld,
)
from goqueue.delivery.dead_letters.dead_letter_moves import DeadLetters
from goqueue.delivery.dead_letters.originals import Originals
from goqueue.delivery.dead_letters.redriven_topics import RedrivenTopics
from goqueue.delivery.lanes.group_lanes import GroupLanes, LanePlan, Quotas, in_turn
from goqueue.delivery.leases.receive import Taker, Wanted
from goqueue.delivery.leases.receive_plan import LaneOffer
from goqueue.delivery.observer import DeliveryObserver
from goqueue.delivery.policy import DeliveryPolicy, Policies
from goqueue.delivery.positions import QueuePositions
from goqueue.delivery.queue import Queue
from goqueue.delivery.reading.acquired_batches import Stretches
from goqueue.delivery.records import QueueId
from goqueue.delivery.settlement.promises import Promises
from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled, Settler, check_visibility
from goqueue.delivery.shards import DELIVERY_STATE, QueueShards
from goqueue.delivery.stats import LaneReport, PriorityStats, ReliabilityStats, priority_stats, reliability_stats
from goqueue.delivery.table import Queues
from goqueue.delivery.values import (
    RECEIVE_BYTES_MAX,
    AcquiredRange,
    Action,
    Delivery,
    GroupSettings,
    GroupSettingsOf,
    RangeSettlement,
    Receive,
    Settled,
    Settlement,
    Start,
)
from goqueue.errors import (
    GoQueueError,
    InternalTopic,
    InvalidRequest,
    NotHeld,
)
from goqueue.ids import parse_group_id
from goqueue.records import TopicPartition

_RETURNS = frozenset({Action.NACK, Action.RELEASE})


class DeliveryService:
    """The queue on the log."""

    def __init__(
        self,
        shards: QueueShards,
        queues: Queues,
        taker: Taker,
        settler: Settler,
        promises: Promises,
        positions: QueuePositions,
        stretches: Stretches,
        agreement: Agreement,
        dead_letters: DeadLetters,
        originals: Originals,
        *,
        config: DeliveryConfig,
        topics: TopicService,
        partitions: Partitions,
        group_settings: GroupSettingsOf,
        clock: Clock,
        rng: Rng,
        observers: Sequence[DeliveryObserver] = (),
    ) -> None:
        self._observers = tuple(observers)
        self._shards = shards
        self.positions = positions
        self.stretches = stretches
        self._agreement = agreement
        self._queues = queues
        self._taker = taker
        self._settler = settler
        self._promises = promises
        self._dead_letters = dead_letters
        self.originals = originals
        self._config = config
        self._topics = topics
        self._partitions = partitions
        self._group_settings = group_settings
        self._clock = clock
        self._rng = rng
        self._policies = Policies(config)
        self._turn = 0
        self._group_lanes = GroupLanes()
        self.redriven = RedrivenTopics(shards, topics)

    # --- messages out --------------------------------------------------------------------

    async def receive(self, request: Receive, *, caller: Caller = ANONYMOUS) -> list[Delivery]:
        """Up to `limit` messages, waiting for the first if asked. Cancelled while it waits, it has leased nothing."""
        self._check_receive(request)
        settings = await self._group_settings(request.group)
        deadline = asyncio.get_running_loop().time() + request.wait_ms / 1000
        while True:
            wanted = [await self._wanted(request, place, settings) for place in request.places]
            found = await self._take_from(request, wanted)
            seconds_left = deadline - asyncio.get_running_loop().time()
            if found or seconds_left <= 0:
                if found:
                    for observer in self._observers:
                        observer.delivered(caller, request, found)
                return found
            await self._wait(wanted, seconds_left)

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
        caller: Caller = ANONYMOUS,
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
        addressed = await self.redriven.reaches(at.topic)
        wanted = wanted._replace(limit=room, may_be_addressed=addressed, quotas=quotas)
        if whole_batches and quotas is None:
            batch_end = partial(self.stretches.batch_end, wanted.queue_id, wanted.partition)
            wanted = wanted._replace(batch_end=batch_end, limit_max=min(free, self._config.receive_max))
        granted = await self._taker.acquire(wanted)
        ranges = [
            AcquiredRange(one.ranges[at], one.ranges[at + 1], one.count)
            for one in granted
            for at in range(0, len(one.ranges), 2)
        ]
        merged = _merged(sorted(ranges))
        if merged:
            for observer in self._observers:
                observer.acquired(caller, group, at, consumer, merged)
        return merged

    async def lane_quotas(
        self, group: str, places: Sequence[TopicPartition], consumer: str, limit: int
    ) -> Mapping[TopicPartition, Quotas] | None:
        """How many messages of each lane each place is to give; None when only one lane waits, or in one place."""
        if len(places) < 2:
            return None
        request = Receive(group, consumer, places, limit)
        settings = await self._group_settings(group)
        wanted = [await self._wanted(request, place, settings) for place in places]
        lanes = await self._lane_plan(group, wanted, limit)
        return None if lanes is None else dict(zip(places, lanes.quotas, strict=True))

    async def wait(self, group: str, places: Sequence[TopicPartition], wait_ms: int) -> None:
        """Sleep until one of the places may have something for the group, or the time is up."""
        request = Receive(group, "", places, 1)
        settings = await self._group_settings(group)
        await self._wait([await self._wanted(request, place, settings) for place in places], wait_ms / 1000)

    # --- receipts in ---------------------------------------------------------------------

    async def settle(
        self, settlements: Sequence[Settlement], *, durable: bool = False, caller: Caller = ANONYMOUS
    ) -> list[Settled]:
        """Do what each says; one result each, in their order. With `durable` it waits for the disk."""
        results = await self._settler.settle(settlements, durable=durable)
        for observer in self._observers:
            observer.settled(caller, settlements, results)
        return results

    async def settle_leases(
        self,
        leases: Sequence[LeasedOffsets],
        action: Action,
        *,
        delay_ms: int | None = None,
        reason: str = "",
        visibility_ms: int | None = None,
        durable: bool = False,
    ) -> list[LeaseSettled]:
        """Do the same with messages of several leases; one outcome each, in their order."""
        return await self._settler.settle_leases(
            leases, action, delay_ms=delay_ms, reason=reason, visibility_ms=visibility_ms, durable=durable
        )

    # --- receipts in a transaction -------------------------------------------------------

    def shards_of(self, receipts: Sequence[str]) -> list[TopicPartition]:
        """The partitions of `__delivery_state` that must be part of a transaction that settles these."""
        return [TopicPartition(DELIVERY_STATE, shard) for shard in self._promises.shards_of(receipts)]

    async def promise(
        self,
        receipts: Sequence[str],
        transaction: Transaction,
        *,
        rejected: bool = False,
        reason: str = "",
        caller: Caller = ANONYMOUS,
    ) -> None:
        """Let the transaction settle these messages: they are nobody else's until it ends. The first bad one raises."""
        await self._promises.make(receipts, transaction, rejected=rejected, reason=reason)
        for observer in self._observers:
            observer.promised(caller, receipts, transaction)

    def shard_of(self, queue_id: QueueId) -> TopicPartition:
        """The partition of `__delivery_state` that must be part of a transaction that reopens messages of a queue."""
        return TopicPartition(DELIVERY_STATE, self._promises.shard_of(queue_id))

    async def reopen(self, queue_id: QueueId, shares: Sequence[FreshShare], transaction: Transaction) -> None:
        """Let the transaction make settled messages of one group available again."""
        await self._promises.reopen(queue_id, shares, transaction)

    async def end_transaction(self, shard: int, transaction: Transaction, /, *, commit: bool) -> None:
        """Keep or forget what the transaction promised; done once that is durable, and again if asked again."""
        for queue_id in await self._promises.end(shard, transaction, commit=commit):
            self._queues.wake(queue_id)

    async def settle_ranges(
        self,
        group: str,
        at: TopicPartition,
        consumer: str,
        ranges: Sequence[RangeSettlement],
        *,
        all_or_none: bool = False,
        caller: Caller = ANONYMOUS,
    ) -> list[GoQueueError | None]:
        """Settle what a consumer holds, by offsets; NotHeld for a range in which it holds nothing.

        With `all_or_none`, NotHeld also for a range in which something is outstanding that it does not hold (any more),
        and then nothing is settled. InvalidRequest if a range reaches behind all that was ever given to the group.
        """
        queue_id = self._shards.id_of(group, at)
        if all_or_none and ranges:
            queue = await self._shards.known(queue_id)
            last = max(one.last for one in ranges)
            if queue is None or last >= max(queue.cursors):
                raise InvalidRequest(
                    f"offset {last} of {at} was never given to group {group!r}", field="acknowledgement_batches"
                )
        command = SettleHeld(queue_id, consumer, ranges, chance=self._rng.random(), all_or_none=all_or_none)
        held: list[bool] = await self._shards.submit(queue_id, command)
        self._queues.wake_after(queue_id, returned=any(one.action in _RETURNS for one in ranges))
        results: list[GoQueueError | None] = [
            None if one else NotHeld(f"{consumer} does not hold offsets {first} to {last} of {at} (any more)")
            for one, (first, last, *_) in zip(held, ranges, strict=True)
        ]
        for observer in self._observers:
            observer.settled_ranges(caller, group, at, consumer, ranges, results)
        return results

    async def set_aside(
        self, group: str, at: TopicPartition, consumer: str, held: Sequence[int], stretches: Sequence[Unreadable]
    ) -> None:
        """Let nobody of the group be given these stretches again, of which the consumer holds those offsets."""
        queue_id = self._shards.id_of(group, at)
        found = []
        for one in stretches:
            offset = min((offset for offset in held if one.first <= offset <= one.last), default=None)
            if offset is not None:
                found.append(SetAside(0, offset, one.first, one.last, one.reason, fresh=False))
        await self._shards.submit(queue_id, SetAsideHeld(queue_id, consumer, found))

    async def release_consumer(self, group: str, consumer: str) -> None:
        """Give back what a consumer holds: it left, or its session ended."""
        for queue in self._queues.of_group(group):
            if queue.in_flight.get(consumer):
                await self._shards.submit(queue.id, ReleaseConsumer(queue.id, consumer))
                self._queues.wake(queue.id)

    async def release_all(self, group: str, places: Sequence[TopicPartition]) -> None:
        """Give back what anybody of the group holds of these places."""
        for place in places:
            queue = await self._shards.known(self._shards.id_of(group, place))
            if queue is None:
                continue
            for consumer in list(queue.in_flight):
                await self._shards.submit(queue.id, ReleaseConsumer(queue.id, consumer))
            self._queues.wake(queue.id)

    # --- what it looks like ----------------------------------------------------------------

    async def policy(self, group: str, topic: str) -> DeliveryPolicy:
        """What the group gets on the topic."""
        return self._policy(topic, await self._group_settings(group))

    async def govern(self, group: str) -> None:
        """The group's settings were changed: they hold for its queues from now on, not only from the next delivery."""
        settings = await self._group_settings(group)
        await self._shards.load_all()
        for queue in self._queues.of_group(group):
            topic = self._shards.topic_of(queue)
            if topic is not None and queue.sequence:
                await self._shards.submit(queue.id, Govern(queue.id, self._policy(topic, settings)))

    async def stats(self, topic: str | None = None) -> ReliabilityStats:
        """Everything that is in flight, retried or dead, over all queues or those of one topic."""
        return reliability_stats(await self._named(topic), self._dead_letters.counts(topic))

    async def priority_stats(self, topic: str | None = None) -> PriorityStats:
        """Per topic, or of one topic, by partition and lane: what is ready, in flight and served."""
        reports: list[LaneReport] = []
        now_ms = self._clock.now_ms()
        for name, queue in await self._named(topic):
            if name is not None:
                partition = self._partitions.get(name, queue.id.partition)
                await self._taker.look(queue, partition, self._config.receive_max)
                reports.append(LaneReport(name, queue, self.known_offers(queue), partition.enqueued))
        return priority_stats(reports, now_ms)

    def known_offers(self, queue: Queue) -> list[LaneOffer]:
        """What each lane has for a first delivery, as far as anybody has looked; it reads nothing."""
        window = self._queues.desk(queue.id).window
        window.move_to(queue.cursors)
        return window.offers(1_000_000)

    async def _named(self, topic: str | None) -> list[tuple[str | None, Queue]]:
        """All queues, or those of a topic that exists, each with its topic's name."""
        topic_id = None if topic is None else self._topics.get(topic).topic_id
        await self._shards.load_all()
        return [
            (self._shards.topic_of(queue), queue) for queue in self._queues if topic_id in {None, queue.id.topic_id}
        ]

    def topic_of(self, queue_id: QueueId) -> str:
        """The name of a queue's topic."""
        return self._topics.by_id(queue_id.topic_id).name

    def queues(self) -> list[tuple[str, Queue]]:
        """The queues in memory by topic, for the metrics."""
        return [(topic, queue) for queue in self._queues if (topic := self._shards.topic_of(queue)) is not None]

    async def close(self) -> None:
        """Stop moving dead letters and let the state be read again at the next start."""
        await self._dead_letters.close()
        await self._shards.close()

    # --- receiving -----------------------------------------------------------------------

    def _check_receive(self, request: Receive) -> None:
        parse_group_id(request.group)
        if not 1 <= request.limit <= self._config.receive_max:
            raise InvalidRequest(
                f"a receive takes 1 to {self._config.receive_max} messages, not {request.limit}", field="limit"
            )
        if request.visibility_ms is not None:
            check_visibility(request.visibility_ms)

    async def _wanted(self, request: Receive, place: TopicPartition, settings: GroupSettings) -> Wanted:
        partition = self._partitions.get(*place)
        if partition.internal:
            raise InternalTopic(place.topic)
        policy = self._policy(place.topic, settings)
        queue_id = QueueId(request.group, partition.topic_id, place.partition)
        if self._queues.find(queue_id) is None:
            await self._open(queue_id, partition, settings)
        await self._agreement.reach(queue_id, partition)
        visibility_ms = policy.visibility_ms if request.visibility_ms is None else request.visibility_ms
        return Wanted(queue_id, partition, request.consumer, 0, request.max_bytes, visibility_ms, policy)

    async def _open(self, queue_id: QueueId, partition: Partition, settings: GroupSettings) -> None:
        log = partition.log
        stays = settings.start is Start.LATEST
        start = log.last_stable_offset if stays else log.start_offset
        await self._shards.submit(queue_id, OpenQueue(queue_id, start, stays, partition.leader_epoch))

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
        self._shards.later(self.settle([Settlement(one.receipt, Action.RELEASE) for one in found]))

    async def _wait(self, wanted: Sequence[Wanted], seconds: float) -> None:
        places = [one.partition.waiters for one in wanted]
        places += [self._queues.desk(one.queue_id).waiters for one in wanted]
        await Waiter(1).wait(places, seconds)

    def _policy(self, topic: str, settings: GroupSettings) -> DeliveryPolicy:
        return self._policies.of(topic, self._topics.config(topic), settings.wishes)


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
