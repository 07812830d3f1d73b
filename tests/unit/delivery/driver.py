"""A shard of the delivery machine over a list instead of a log, and consumers that use it as the service does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from goqueue.coordinator.shard import Entry, Record, Shard, Transaction
from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.leases.receive_plan import LaneOffer, make_plan
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.commands import FreshShare, Granted, Lease, OpenQueue
from goqueue.delivery.state.machine import DeliveryMachine
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId, offsets_of, ranges_of

QUEUE = QueueId("group", UUID(int=7), 0)


class Table:
    """Who hears of queues, for a test that wants to know what was said."""

    def __init__(self) -> None:
        self.ready = 0
        self.dying = 0

    def put(self, queue: Queue) -> None:
        pass

    def drop(self, queue: Queue) -> None:
        pass

    def on_ready(self, queue: Queue) -> None:
        self.ready += 1

    def on_dying(self, queue: Queue) -> None:
        self.dying += 1


class ListJournal:
    """Batches of records in order; may be compacted as a log would be."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def end(self) -> int:
        return self.entries[-1].end_offset if self.entries else 0

    def append(self, records: Sequence[Record], transaction: Transaction | None, now_ms: int) -> int:
        end = self.end + len(records)
        self.entries.append(Entry(end, list(records), transaction.producer_id if transaction else None))
        return end

    def append_marker(self, transaction: Transaction, *, commit: bool, coordinator_epoch: int, now_ms: int) -> int:
        self.entries.append(Entry(self.end + 1, (), transaction.producer_id, commit))
        return self.end

    def compact(self) -> None:
        """Keep the newest record of each key, tombstones included."""
        newest = {key: (at, n) for at, entry in enumerate(self.entries) for n, (key, _) in enumerate(entry.records)}
        self.entries = [
            Entry(
                entry.end_offset,
                [one for n, one in enumerate(entry.records) if newest[one[0]] == (at, n)],
                entry.transaction_of,
                entry.commit,
            )
            for at, entry in enumerate(self.entries)
        ]


class Driver:
    """One queue, its log of lanes and keys, and a clock."""

    def __init__(self, policy: DeliveryPolicy | None = None) -> None:
        self.policy = policy or DeliveryPolicy()
        self.now_ms = 1_000_000
        # The log: lane and key of every offset, and whether its record is still there.
        self.lanes: list[int] = []
        self.keys: list[int] = []
        self.journal = ListJournal()
        self.table = Table()
        self.next_lease = 1
        self._load()

    def _load(self) -> None:
        self.machine = DeliveryMachine(self.table)
        self.shard = Shard(self.machine, self.journal, end_offset=0)
        for entry in self.journal.entries:
            self.shard.take(entry)
        self.run(OpenQueue(QUEUE, 0))

    @property
    def queue(self) -> Queue:
        found = self.machine.queue(QUEUE)
        assert found is not None
        return found

    def restart(self, *, compacted: bool = False) -> None:
        if compacted:
            self.journal.compact()
        self._load()

    def run(self, command: object) -> Any:
        before = self.shard.written_end
        replies = list(self.shard.submit(0, command, self.now_ms)) + self.shard.durable_to(self.shard.written_end)
        assert self.shard.written_end >= before
        ((_, reply),) = replies
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def advance(self, ms: int) -> None:
        """Let time pass, and let the machine wake whenever it wants to."""
        end_ms = self.now_ms + ms
        while (wake := self.machine.wake_at_ms()) is not None and wake <= end_ms:
            self.now_ms = max(wake, self.now_ms)
            self.shard.tick(self.now_ms)
            self.shard.durable_to(self.shard.written_end)
        self.now_ms = end_ms

    def publish(self, lane: int = 2, key: int = 0) -> int:
        self.lanes.append(lane)
        self.keys.append(key)
        return len(self.lanes) - 1

    def receive(self, limit: int, consumer: str = "c", *, gone: frozenset[int] = frozenset()) -> list[Granted]:
        """As the service does it; offsets in `gone` turn out to have no record."""
        queue, end = self.queue, len(self.lanes)
        offers = []
        for lane in range(LANES):
            offsets = [at for at in range(queue.cursors[lane], end) if self.lanes[at] == lane]
            runs = ranges_of(offsets)
            offers.append(LaneOffer(list(zip(runs[::2], runs[1::2], strict=True)), end, len(offsets)))
        plan = make_plan(queue, offers, limit, self.now_ms, self.policy)
        cursors = list(plan.base)
        fresh: list[list[int]] = [[] for _ in range(LANES)]
        for item in plan.items:
            if item.fresh:
                fresh[item.lane] += [at for at in range(item.first, item.last + 1) if at not in gone]
                cursors[item.lane] = item.last + 1
        again = [item.first for item in plan.items if not item.fresh]
        for lane, offer in enumerate(offers):
            if not offer.runs or cursors[lane] > offer.runs[-1][1]:
                cursors[lane] = end
        if not plan.items:
            return []
        lease = Lease(
            QUEUE,
            consumer,
            self.policy,
            self.policy.visibility_ms,
            self.next_lease,
            plan.base,
            cursors,
            [
                FreshShare(lane, ranges_of(found), [self.keys[at] for at in found] if self.policy.key_ordered else [])
                for lane, found in enumerate(fresh)
                if found
            ],
            [at for at in again if at not in gone],
            [at for at in again if at in gone],
        )
        self.next_lease += 100
        granted: list[Granted] = self.run(lease)
        return granted

    def receive_offsets(self, limit: int, consumer: str = "c") -> list[int]:
        return [at for one in self.receive(limit, consumer) for at in offsets_of(one.ranges)]
