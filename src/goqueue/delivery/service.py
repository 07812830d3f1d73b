"""DeliveryService: what front-ends call. Messages out with receipts, receipts back in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock, Rng
from goqueue.config import DeliveryConfig
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.lanes.group_lanes import Quotas
from goqueue.delivery.leases.receive_plan import LaneOffer
from goqueue.delivery.observer import DeliveryObserver
from goqueue.delivery.parts import DeliveryParts
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.receiving import Receiver
from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled, one_by_one
from goqueue.delivery.state.commands import (
    FreshShare,
    Govern,
    ReleaseConsumer,
    SetAside,
    SetAsideHeld,
    SettleHeld,
)
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId, QueuePlace
from goqueue.delivery.stats import LaneReport, PriorityStats, ReliabilityStats, priority_stats, reliability_stats
from goqueue.delivery.values import (
    AcquiredRange,
    Action,
    Delivery,
    GroupSettingsOf,
    RangeSettlement,
    Receive,
    Settlement,
    SettleResult,
)
from goqueue.errors import (
    GoQueueError,
    InvalidRequest,
    NotHeld,
)
from goqueue.records import TopicPartition

_RETURNS = frozenset({Action.NACK, Action.RELEASE})


class DeliveryService:
    """The queue on the log."""

    def __init__(
        self,
        parts: DeliveryParts,
        receiver: Receiver,
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
        self._receiver = receiver
        self._shards = parts.shards
        self._queues = parts.queues
        self._taker = parts.taker
        self._settler = parts.settler
        self._promises = parts.promises
        self._dead_letters = parts.dead_letters
        self.positions = parts.positions
        self.acquired_reads = parts.acquired_reads
        self.originals = parts.originals
        self.redriven = parts.redriven
        self._config = config
        self._topics = topics
        self._partitions = partitions
        self._group_settings = group_settings
        self._clock = clock
        self._rng = rng
        # As they are: what each lane has to give, and when there may be more.
        self.lane_quotas = receiver.lane_quotas
        self.wait = receiver.wait

    # --- messages out --------------------------------------------------------------------

    async def receive(self, request: Receive, *, caller: Caller = ANONYMOUS) -> list[Delivery]:
        """Up to `limit` messages, waiting for the first if asked. Cancelled while it waits, it has leased nothing."""
        found = await self._receiver.receive(request)
        if found:
            for observer in self._observers:
                observer.delivered(caller, request, found)
        return found

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
        """Lease messages for a consumer that reads them by itself; see `Receiver.acquire`."""
        ranges = await self._receiver.acquire(
            group,
            at,
            consumer,
            limit=limit,
            visibility_ms=visibility_ms,
            quotas=quotas,
            whole_batches=whole_batches,
        )
        if ranges:
            for observer in self._observers:
                observer.acquired(caller, group, at, consumer, ranges)
        return ranges

    # --- receipts in ---------------------------------------------------------------------

    async def settle(
        self, settlements: Sequence[Settlement], *, durable: bool = False, caller: Caller = ANONYMOUS
    ) -> list[SettleResult]:
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
        caller: Caller = ANONYMOUS,
    ) -> list[LeaseSettled]:
        """Do the same with messages of several leases; one outcome each, in their order."""
        results = await self._settler.settle_leases(
            leases, action, delay_ms=delay_ms, reason=reason, visibility_ms=visibility_ms, durable=durable
        )
        if self._observers:
            kind = Settlement("", action, delay_ms, reason, visibility_ms)
            asked, settled = one_by_one(leases, results, kind)
            for observer in self._observers:
                observer.settled(caller, asked, settled)
        return results

    # --- receipts in a transaction -------------------------------------------------------

    def places_of(self, receipts: Sequence[str]) -> list[TopicPartition]:
        """The partitions that must be part of a transaction that settles these."""
        return self._promises.places_of(receipts)

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

    async def reopen(self, queue_id: QueueId, shares: Sequence[FreshShare], transaction: Transaction) -> None:
        """Let the transaction make settled messages of one group available again."""
        await self._promises.reopen(queue_id, shares, transaction)

    async def end_promises(
        self, place: TopicPartition, transaction: Transaction, /, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """Keep or forget what the transaction promised; done once that is durable, and again if asked again."""
        at = QueuePlace(self._topics.get(place.topic).topic_id, place.partition)
        ended = await self._promises.end(at, transaction, commit=commit, coordinator_epoch=coordinator_epoch)
        for queue_id in ended:
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
                    f"offset {last} of {at} was never delivered to group {group!r}", field="acknowledgement_batches"
                )
        self._partitions.check_copies(*at)
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

    async def note_redriven(self, letters: Collection[str]) -> None:
        """Letters of these dead-letter topics are sent back from now on: records may be for one group only."""
        self.redriven.note(letters)

    # --- what it looks like ----------------------------------------------------------------

    async def policy(self, group: str, topic: str) -> DeliveryPolicy:
        """What the group gets on the topic."""
        return self._receiver.policy(topic, await self._group_settings(group))

    async def govern(self, group: str) -> None:
        """The group's settings were changed: they hold for its queues from now on, not only from the next delivery."""
        await self._shards.load_all()
        queues = self._queues.of_group(group)
        if not queues:
            # To ask for its settings would make a group of a name that has only settings yet.
            return
        settings = await self._group_settings(group)
        for queue in queues:
            topic = self._shards.topic_of(queue)
            if topic is not None and queue.sequence:
                await self._shards.submit(queue.id, Govern(queue.id, self._receiver.policy(topic, settings)))

    async def stats(self, topic: str | None = None) -> ReliabilityStats:
        """Everything that is in flight, retried or dead, over all queues or those of one topic."""
        return reliability_stats(await self._named(topic), self._dead_letters.counts(topic))

    async def priority_stats(self, topic: str | None = None) -> PriorityStats:
        """Per topic, or of one topic, by partition and lane: what is ready, in flight and served."""
        reports: list[LaneReport] = []
        now_ms = self._clock.now_ms()
        for name, queue in await self._named(topic):
            if name is not None:
                partition = await self._partitions.open_leader(name, queue.id.partition)
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
        await self._shards.load_readable()
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
