"""Taking messages of one queue: look at the lanes, plan, read, and only then lease.

Nothing is awaited between the lease and its return, so whoever goes away while waiting for the
disk or for messages has leased nothing (W19). What the log no longer has, or no longer shows, is
passed over here and settled without a word.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import mmh3

from goqueue.broker.partitions import Partition
from goqueue.clock import Clock, Rng
from goqueue.coordinator.runtime import Coordinator
from goqueue.delivery.batches import OpenedBatches, Part, place_batches
from goqueue.delivery.commands import FreshShare, Granted, Lease
from goqueue.delivery.lanes import LANES
from goqueue.delivery.plan import Item, LaneOffer, Plan, make_plan
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.queue import Queue
from goqueue.delivery.receipts import receipt_parts
from goqueue.delivery.records import QueueId, offsets_of, ranges_of
from goqueue.delivery.table import Queues
from goqueue.delivery.values import Delivery
from goqueue.delivery.windows import LOOK_RUNS_MAX
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


class Wanted(NamedTuple):
    """What one receive wants of one queue."""

    queue_id: QueueId
    partition: Partition
    consumer: str
    limit: int
    max_bytes: int
    visibility_ms: int
    policy: DeliveryPolicy


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
    size_bytes: int = 0
    too_old: int = 0


class Taker:
    """Takes messages of queues whose shards are loaded."""

    def __init__(self, coordinator: Coordinator, queues: Queues, *, offload: Offload, clock: Clock, rng: Rng) -> None:
        self._coordinator = coordinator
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
        leased = await self._leased(wanted, is_read=wanted.policy.key_ordered or wanted.policy.ttl_ms is not None)
        return [] if leased is None else leased[1]

    async def _leased(self, wanted: Wanted, *, is_read: bool) -> tuple[Reading, list[Granted]] | None:
        """Plan, read and lease until something is granted; None when there is nothing to be had."""
        for _ in range(_ATTEMPTS):
            queue = self._queues.find(wanted.queue_id)
            if queue is None:
                return None
            plan, offers = await self._plan(queue, wanted)
            if not plan.items:
                return None
            reading = await self._read(plan, offers, wanted) if is_read else _unread(plan, offers)
            lease = self._lease_of(reading, wanted)
            granted: list[Granted] | None = await self._coordinator.submit_to(self.shard_of(wanted.queue_id), lease)
            if granted is None:
                continue
            queue.counts["too_old"] += reading.too_old
            if granted:
                return reading, granted
        return None

    def shard_of(self, queue_id: QueueId) -> int:
        """Where the queue's state lies."""
        return self._coordinator.partition_for(queue_id.text)

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
        await self.look(queue, wanted.partition, wanted.limit)
        window = self._queues.desk(queue.id).window
        window.move_to(queue.cursors)
        offers = window.offers(wanted.limit)
        return make_plan(queue, offers, wanted.limit, self._clock.now_ms(), wanted.policy), offers

    # --- reading -------------------------------------------------------------------------

    async def _read(self, plan: Plan, offers: Sequence[LaneOffer], wanted: Wanted) -> Reading:
        reading = Reading(plan.base, list(plan.base))
        ends = [offer.runs[-1][1] if offer.runs else -1 for offer in offers]
        scanned = [offer.scanned_to for offer in offers]
        oldest_ms = -1
        if wanted.policy.ttl_ms is not None:
            oldest_ms = self._clock.now_ms() - wanted.policy.ttl_ms
        for item in plan.items:
            offset = item.first
            while offset <= item.last:
                room = wanted.max_bytes - reading.size_bytes
                if room <= 0 and reading.records:
                    return reading
                offset = await self._read_part(item, offset, room, oldest_ms, wanted, reading)
                if item.fresh:
                    reading.cursors[item.lane] = offset
        for lane in range(LANES):
            # Behind the last message that is known nothing of the lane comes up to `scanned_to`.
            if reading.cursors[lane] > ends[lane]:
                reading.cursors[lane] = max(scanned[lane], reading.cursors[lane])
        return reading

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
        records, next_offset, record_bytes = part
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
            young = [record for record in records if record.timestamp_ms > oldest_ms]
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
            reading.keys[lane] += [_key_hash(record.key) for record in records]
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
            epoch=wanted.partition.leader_epoch,
        )

    def _deliveries(self, wanted: Wanted, reading: Reading, granted: Sequence[Granted]) -> list[Delivery]:
        partition = wanted.partition
        topic, number = partition.key
        shard = self.shard_of(wanted.queue_id)
        parts = [
            (one, *receipt_parts(topic, number, partition.topic_id, shard, one.lease_id, one.count)) for one in granted
        ]
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


def _key_hash(key: bytes | None) -> int:
    """0 for no key: such messages are in nobody's way."""
    return 0 if key is None else int(mmh3.hash64(key, signed=False)[0]) or 1
