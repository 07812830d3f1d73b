"""The delivery machine alone: how many messages it leases and settles in a second, without any I/O.

Everything a command costs is in it: the plan, the decision, the record encoded, decoded and
applied, snapshots included. Only the log behind it is a list that forgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tests.bench.measure import Bar, Stopwatch, at_least, told

from goqueue.coordinator.shard import Record, Shard, Transaction
from goqueue.delivery.leases.receive_plan import LaneOffer, make_plan
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.commands import FreshShare, Granted, Lease, OpenQueue, Settle, SettleShare
from goqueue.delivery.state.machine import DeliveryMachine
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId, offsets_of
from goqueue.delivery.values import Action

QUEUE = QueueId("group", UUID(int=1), 0)
POLICY = DeliveryPolicy()


class NoTable:
    def put(self, queue: Queue) -> None:
        """Nobody asks."""

    def drop(self, queue: Queue) -> None:
        """Nobody asks."""

    def on_ready(self, queue: Queue) -> None:
        """Nobody waits."""

    def on_dying(self, queue: Queue) -> None:
        """Nobody dies."""


class NoJournal:
    """Takes records and keeps only their number and size."""

    def __init__(self) -> None:
        self.end = 0
        self.bytes = 0

    def append(self, records: Sequence[Record], transaction: Transaction | None, now_ms: int) -> int:
        self.end += len(records)
        self.bytes += sum(len(key) + len(value or b"") for key, value in records)
        return self.end

    def append_marker(self, transaction: Transaction, *, commit: bool, coordinator_epoch: int, now_ms: int) -> int:
        raise NotImplementedError


def run(messages: int = 500_000, batch: int = 100) -> list[Bar]:
    """Lease `batch` at a time and acknowledge them in one call, until all messages are settled."""
    seconds, journal = lease_and_ack(messages, batch)
    small = min(messages, 50_000)
    seconds_of_one, _ = lease_and_ack(small, 1)
    return [
        at_least(
            f"leases and acks by {batch}, the machine alone", messages / seconds, 250_000, unit=" msg/s", digits=0
        ),
        told("leases and acks one by one, the machine alone", small / seconds_of_one, unit=" msg/s", digits=0),
        told(f"bytes of state per message, by {batch}", journal.bytes / messages, unit=" B"),
    ]


def lease_and_ack(messages: int, batch: int) -> tuple[float, NoJournal]:
    journal = NoJournal()
    machine = DeliveryMachine(NoTable())
    shard = Shard(machine, journal, end_offset=0)
    shard.submit(0, OpenQueue(QUEUE, 0), 0)
    queue = machine.queue(QUEUE)
    assert queue is not None
    settled = 0
    began = Stopwatch.clock()
    for at in range(0, messages, batch):
        now_ms = at // batch
        offers = [LaneOffer((), messages, 0) for _ in range(5)]
        offers[2] = LaneOffer([(at, messages - 1)], messages, messages - at)
        plan = make_plan(queue, offers, batch, now_ms, POLICY)
        first, last = plan.items[0].first, plan.items[-1].last
        cursors = [messages, messages, last + 1, messages, messages]
        lease = Lease(
            QUEUE, "consumer", POLICY, 30_000, 10_000_000 + at * 10, plan.base, cursors,
            [FreshShare(2, [first, last], [])],
        )  # fmt: skip
        ((_, granted),) = shard.submit(0, lease, now_ms)
        (one,) = granted  # type: ignore[misc]  # what a shard answers is typed by the command
        assert isinstance(one, Granted)
        offsets = offsets_of(one.ranges)
        settle = Settle([SettleShare(one.lease_id, one.count, Action.ACK, offsets)])
        ((_, outcomes),) = shard.submit(0, settle, now_ms)
        settled += len(offsets)
        assert outcomes[0].action_taken == "acked"  # type: ignore[index]
    seconds = Stopwatch.clock() - began
    assert settled == messages
    assert not queue.outstanding
    return seconds, journal


if __name__ == "__main__":
    for bar in run():
        print(bar)
