"""Taking messages of one queue: look at the lanes, plan, read, and only then lease.

Nothing is awaited between the lease and its return, so whoever goes away while waiting for the
disk or for messages has leased nothing. What the log no longer has, or no longer shows, is
passed over here and settled without a word.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import mmh3

from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partitions import Partition
from goqueue.clock import Clock, Rng
from goqueue.coordinator.runtime import Shards
from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.lanes.lane_window import LOOK_RUNS_MAX
from goqueue.delivery.leases.receipts import receipt_parts
from goqueue.delivery.leases.receive_plan import Item, LaneOffer, Plan, lanes_available, make_plan
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.reading.opened_batches import OpenedBatches, Part, address_of, place_batches
from goqueue.delivery.state.commands import FreshShare, Granted, Lease, SetAside
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId, QueuePlace, offsets_of, ranges_of
from goqueue.delivery.table import NodeQueues
from goqueue.delivery.values import Delivery
from goqueue.ports import ColdRead, Offload
from goqueue.records import Record

# A receive looks no further than so many looks at lane indexes; the next one goes on from there.
_LOOKS_MAX = 64
# How often a plan is made again because another receive was faster, or all it found was gone.
_ATTEMPTS = 1000
_LEASE_BITS = 63
# Partitions whose last opened batches are kept.
_OPENED_PARTITIONS_MAX = 64
_delivery = tuple.__new__


BatchEnd = Callable[[int], Awaitable[int]]


class Wanted(NamedTuple):
    """What one receive wants of one queue."""

    queue_id: QueueId
    partition: Partition
    consumer: str
    limit: int
    max_bytes: int
    visibility_ms: int
    policy: DeliveryPolicy
    # Whether records may be for one group only, so that they must be read before they are leased.
    may_be_addressed: bool = False
    # How many of each lane, where lanes were scheduled over several partitions.
    quotas: Sequence[int] | None = None
    # Tells where the batch of an offset ends, if whole batches are wanted, and how many messages there may be at most.
    batch_end: BatchEnd | None = None
    limit_max: int = 0


@dataclass(slots=True)
class Reading:
    """What was read for a plan, before it is leased."""

    base: list[int]
    cursors: list[int]
    # In the order of delivery.
    records: list[tuple[int, Record]] = field(default_factory=list)
    fresh: list[list[int]] = field(default_factory=lambda: [[] for _ in range(LANES)])
    keys: list[list[int]] = field(default_factory=lambda: [[] for _ in range(LANES)])
    retries: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    size_bytes: int = 0
    too_old: int = 0

    def set_aside_from(self, item: Item, offset: int, found: Unreadable) -> int:
        """Pass over a stretch that nobody can read; returns where to go on."""
        if not any(one.first <= offset <= one.last for one in self.set_aside):
            self.set_aside.append(SetAside(item.lane, offset, found.first, found.last, found.reason, item.fresh))
        return found.last + 1

    def behind_set_aside(self) -> Reading:
        """The same, with no lane left standing within a stretch that nobody can read."""
        for one in self.set_aside:
            self.cursors = [one.last + 1 if one.first <= cursor <= one.last else cursor for cursor in self.cursors]
        return self


class Taker:
    """Takes messages of queues whose shards are loaded."""

    def __init__(
        self, shards: Shards[QueuePlace], queues: NodeQueues, *, offload: Offload, clock: Clock, rng: Rng
    ) -> None:
        self._shards = shards
        self._queues = queues
        self._offload = offload
        self._clock = clock
        self._rng = rng
        self._opened: OrderedDict[tuple[str, int], tuple[Partition, OpenedBatches]] = OrderedDict()

    async def take(self, wanted: Wanted) -> list[Delivery]:
        """Lease up to `limit` messages and return them with their receipts."""
        leased = await self._leased(wanted, is_read=True)
        return [] if leased is None else self._deliveries(wanted, *leased)

    async def acquire(self, wanted: Wanted) -> list[Granted]:
        """Lease without reading, for those who read by themselves; with keys in order it must be read all the same."""
        policy = wanted.policy
        must_read = policy.key_ordered or policy.ttl_ms is not None or wanted.may_be_addressed
        leased = await self._leased(wanted, is_read=must_read)
        return [] if leased is None else leased[1]

    async def _leased(self, wanted: Wanted, *, is_read: bool) -> tuple[Reading, list[Granted]] | None:
        """Plan, read and lease until something is granted; None when there is nothing to be had."""
        for _ in range(_ATTEMPTS):
            queue = self._queues.find(wanted.queue_id)
            if queue is None:
                return None
            plan, offers = await self._plan(queue, wanted)
            if not plan.items:
                if len(queue.outstanding) >= wanted.policy.outstanding_max:
                    self._queues.note_crowded(queue.id.group)
                return None
            if wanted.batch_end is not None and not is_read:
                await _extend(plan, offers, wanted, wanted.batch_end)
            reading = await self._read(plan, offers, wanted) if is_read else _unread(plan, offers)
            lease = self._lease_of(reading, wanted)
            granted: list[Granted] | None = await self._shards.submit_to(wanted.queue_id.place, lease)
            if granted is None:
                continue
            queue.counts["too_old"] += reading.too_old
            if granted:
                return reading, granted
        return None

    async def look(self, queue: Queue, partition: Partition, want: int) -> None:
        """Let every lane's window show `want` messages, or all there are."""
        window = self._queues.desk(queue.id).window
        window.move_to(queue.cursors)
        log = partition.log
        for _ in range(_LOOKS_MAX):
            upper = log.last_stable_offset
            look = window.next_look(want, upper)
            if look is None:
                return
            ask = partial(log.lane_runs, look.lane, look.offset, upper=upper, runs_max=LOOK_RUNS_MAX)
            try:
                found = ask(nowait=True)
            except ColdRead:
                found = await self._offload(ask)
                window.move_to(queue.cursors)
            window.take(look, found)

    async def _plan(self, queue: Queue, wanted: Wanted) -> tuple[Plan, list[LaneOffer]]:
        await self.look(queue, wanted.partition, wanted.limit + 1)
        window = self._queues.desk(queue.id).window
        window.move_to(queue.cursors)
        offers = window.offers(wanted.limit + 1)
        now_ms = self._clock.now_ms()
        return make_plan(queue, offers, wanted.limit, now_ms, wanted.policy, wanted.quotas), offers

    async def behind(self, queue: Queue, partition: Partition, top: int) -> int:
        """Untouched messages of lanes whose cursors lie below `top`, as far as a bounded look sees."""
        count = 0
        for lane, cursor in enumerate(queue.cursors):
            at = cursor
            for _ in range(_LOOKS_MAX):
                if at >= top:
                    break
                ask = partial(partition.log.lane_runs, lane, at, upper=top, runs_max=LOOK_RUNS_MAX)
                found = await self._offload(ask)
                count += sum(min(first + size, top) - max(first, at) for _, first, size in found.runs)
                at = max(found.scanned_to, at + 1)
        return count

    async def lanes_available(self, wanted: Wanted) -> list[int]:
        """How many messages each lane of a queue could give to a receive of up to `limit`."""
        queue = self._queues.find(wanted.queue_id)
        if queue is None:
            return [0] * LANES
        await self.look(queue, wanted.partition, wanted.limit)
        window = self._queues.desk(queue.id).window
        window.move_to(queue.cursors)
        offers = window.offers(wanted.limit)
        return lanes_available(queue, offers, wanted.limit, self._clock.now_ms(), wanted.policy)

    # --- reading -------------------------------------------------------------------------

    async def _read(self, plan: Plan, offers: Sequence[LaneOffer], wanted: Wanted) -> Reading:
        reading = Reading(plan.base, list(plan.base))
        ends = [offer.runs[-1][1] if offer.runs else -1 for offer in offers]
        scanned = [offer.scanned_to for offer in offers]
        oldest_ms = -1
        if wanted.policy.ttl_ms is not None:
            oldest_ms = self._clock.now_ms() - wanted.policy.ttl_ms
        for item in plan.items:
            # A stretch that was set aside may reach into the item.
            offset = max(item.first, reading.cursors[item.lane]) if item.fresh else item.first
            while offset <= item.last:
                room = wanted.max_bytes - reading.size_bytes
                if room <= 0 and reading.records:
                    return reading.behind_set_aside()
                offset = await self._read_part(item, offset, room, oldest_ms, wanted, reading)
                if item.fresh:
                    reading.cursors[item.lane] = offset
        for lane in range(LANES):
            # Behind the last message that is known nothing of the lane comes up to `scanned_to`.
            if reading.cursors[lane] > ends[lane]:
                reading.cursors[lane] = max(scanned[lane], reading.cursors[lane])
        return reading.behind_set_aside()

    async def _read_part(
        self, item: Item, offset: int, room: int, oldest_ms: int, wanted: Wanted, reading: Reading
    ) -> int:
        """Take in some records from `offset` on; returns where to go on."""
        opened = self._batches(wanted.partition)
        start = wanted.partition.log.start_offset
        part = opened.find(offset, item.last) if offset >= start else Part([], min(start, item.last + 1), 0)
        while part is None:
            try:
                batches = place_batches(wanted.partition, offset, item.last)
            except ColdRead:
                batches = await self._offload(partial(place_batches, wanted.partition, offset, item.last, nowait=False))
            opened.add(batches)
            part = opened.find(offset, item.last)
        records, next_offset, record_bytes, is_addressed, batch_ms, unreadable = part
        if unreadable is not None:
            return reading.set_aside_from(item, offset, unreadable)
        if is_addressed:
            group = wanted.queue_id.group
            records = [record for record in records if address_of(record) in {None, group}]
        if record_bytes * len(records) > room:
            count = max(room // record_bytes, 0 if reading.records else 1)
            if count < len(records):
                # What does not fit ends the answer.
                reading.size_bytes += record_bytes
                if not count:
                    return offset
                records = records[:count]
                next_offset = records[-1].offset + 1
        if oldest_ms >= 0:
            # 0 or less is not a time.
            young = [one for one in records if (one.timestamp_ms if one.timestamp_ms > 0 else batch_ms) > oldest_ms]
            reading.too_old += len(records) - len(young)
            records = young
        reading.size_bytes += record_bytes * len(records)
        lane = item.lane
        reading.records += [(lane, record) for record in records]
        if not item.fresh:
            (reading.retries if records else reading.gone).append(offset)
            return max(next_offset, item.last + 1) if records else offset + 1
        reading.fresh[lane] += [record.offset for record in records]
        if wanted.policy.key_ordered:
            reading.keys[lane] += [key_hash(record.key) for record in records]
        return next_offset

    def _batches(self, partition: Partition) -> OpenedBatches:
        known = self._opened.get(partition.key)
        if known is None or known[0] is not partition:
            known = self._opened[partition.key] = (partition, OpenedBatches())
            if len(self._opened) > _OPENED_PARTITIONS_MAX:
                self._opened.popitem(last=False)
        self._opened.move_to_end(partition.key)
        return known[1]

    # --- leasing -------------------------------------------------------------------------

    def _lease_of(self, reading: Reading, wanted: Wanted) -> Lease:
        return Lease(
            queue=wanted.queue_id,
            consumer=wanted.consumer,
            policy=wanted.policy,
            visibility_ms=wanted.visibility_ms,
            lease_id=self._rng.getrandbits(_LEASE_BITS) or 1,
            base=reading.base,
            cursors=reading.cursors,
            fresh=[
                FreshShare(lane, ranges_of(offsets), reading.keys[lane])
                for lane, offsets in enumerate(reading.fresh)
                if offsets
            ],
            retries=reading.retries,
            gone=reading.gone,
            set_aside=reading.set_aside,
            epoch=wanted.partition.leader_epoch,
        )

    def _deliveries(self, wanted: Wanted, reading: Reading, granted: Sequence[Granted]) -> list[Delivery]:
        partition = wanted.partition
        topic, number = partition.key
        parts = [(one, *receipt_parts(topic, number, partition.topic_id, one.lease_id, one.count)) for one in granted]
        if reading.retries or wanted.policy.key_ordered:
            # Not all that was read was granted, or not in one lease per lane.
            by_offset = {offset: part for part in parts for offset in offsets_of(part[0].ranges)}
            chosen = [(lane, record, part) for lane, record in reading.records if (part := by_offset.get(record[0]))]
        else:
            by_lane = {part[0].lane: part for part in parts}
            chosen = [(lane, record, by_lane[lane]) for lane, record in reading.records]
        deliveries: list[Delivery] = [
            _delivery(
                Delivery,
                (
                    topic,
                    number,
                    offset,
                    timestamp_ms,
                    key,
                    value,
                    headers,
                    lane,
                    f"{before}{offset}{behind}",
                    one.count,
                    one.deadline_ms,
                    one.first_ms,
                ),
            )
            for lane, (offset, timestamp_ms, key, value, headers), (one, before, behind) in chosen
        ]
        partition.traffic.messages_out += len(deliveries)
        return deliveries


async def _extend(plan: Plan, offers: Sequence[LaneOffer], wanted: Wanted, batch_end: BatchEnd) -> None:
    """Let a plan of one lane end where a batch does, as far as the limits allow.

    Where several lanes take turns, their shares stay as they were planned.
    """
    lane, first, last, fresh = plan.items[-1]
    if not fresh or any(one.lane != lane for one in plan.items):
        return
    room = wanted.limit_max - sum(one.last - one.first + 1 for one in plan.items)
    run_last = next((run[1] for run in offers[lane].runs if run[0] <= last <= run[1]), last)
    most = min(run_last, last + room)
    if most > last:
        plan.items[-1] = Item(lane, first, max(last, min(await batch_end(last), most)), fresh)


def _unread(plan: Plan, offers: Sequence[LaneOffer]) -> Reading:
    reading = Reading(plan.base, list(plan.base))
    for lane, first, last, fresh in plan.items:
        if fresh:
            reading.fresh[lane] += range(first, last + 1)
            reading.cursors[lane] = last + 1
        else:
            reading.retries.append(first)
    for lane, offer in enumerate(offers):
        if not offer.runs or reading.cursors[lane] > offer.runs[-1][1]:
            reading.cursors[lane] = max(offer.scanned_to, reading.cursors[lane])
    return reading


def key_hash(key: bytes | None) -> int:
    """0 for no key: such messages are in nobody's way."""
    return 0 if key is None else int(mmh3.hash64(key, signed=False)[0]) or 1
