"""Clients of a whole simulated cluster, and what they were promised.

Every client goes on until it is stopped. What it was told is kept; what it was not told may be true or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from tests.sim.whole_cluster import NODES, WholeCluster

from goqueue.broker.arrivals.arrival import NO_FACTS, Facts
from goqueue.codec.batch_encode import encode_batch
from goqueue.coordinator.shard import Transaction
from goqueue.delay.values import Held, SlotId
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import ConcurrentTransactions, GoQueueError, PeerUnreachable, ProducerError, wire_of
from goqueue.groups.service import NewOffset
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.transactions.commands import Producer

T = TypeVar("T")
Work = Callable[[Services], Coroutine[Any, Any, T]]

ORDERS, LATE, JOBS, TASKS, OUT, BILLS = "orders", "late", "jobs", "tasks", "out", "bills"
TOPICS = (ORDERS, JOBS, TASKS, OUT, BILLS)
PARTITIONS = range(2)
TIMEOUT_MS = 4_000
DELAY_MS_MAX = 3_000
_PAUSE_S_MAX = 0.3


def places(topic: str) -> list[TopicPartition]:
    """The partitions of a topic."""
    return [TopicPartition(topic, number) for number in PARTITIONS]


@dataclass
class Piece:
    """One transaction: what it would do, and how its worker was told that it ended."""

    acked: set[bytes] = field(default_factory=set)
    rejected: set[bytes] = field(default_factory=set)
    later: bool = False
    group: str = ""
    offset: int = 0
    end: bool | None = None


@dataclass
class History:
    """What all clients did, and what they were told."""

    # (place, value) -> offset of what was acknowledged, in the order of the acknowledgements.
    acknowledged: dict[TopicPartition, dict[bytes, int]] = field(default_factory=dict)
    sent: set[bytes] = field(default_factory=set)
    pieces: dict[bytes, Piece] = field(default_factory=dict)
    jobs: set[bytes] = field(default_factory=set)
    tasks: set[bytes] = field(default_factory=set)
    # Tasks whose durable ack was answered.
    done: set[bytes] = field(default_factory=set)
    # Tasks whose ack was answered, durable or not, in a group of its own.
    answered: set[bytes] = field(default_factory=set)
    # Delayed messages: when each is due, and which the sender was told are held.
    due_ms: dict[bytes, int] = field(default_factory=dict)
    held: set[bytes] = field(default_factory=set)
    committed: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        """Something happened, for whoever wants to know whether a run tried anything."""
        self.counts[what] = self.counts.get(what, 0) + 1


class Client:
    """One user of the cluster."""

    def __init__(self, cluster: WholeCluster, history: History, name: str, rng: Random) -> None:
        self.cluster = cluster
        self.history = history
        self.name = name
        self.rng = rng
        self.is_stopped = False
        self._number = 0

    async def run(self) -> None:
        """Do one thing after the other."""
        while not self.is_stopped:
            try:
                await self.turn()
            except GoQueueError as error:
                if not isinstance(error, PeerUnreachable) and not wire_of(error).retriable and self.is_wrong(error):
                    raise
                self.history.count(type(error).__name__)
            await asyncio.sleep(self.rng.random() * _PAUSE_S_MAX)

    async def turn(self) -> None:
        """One thing."""
        raise NotImplementedError

    def is_wrong(self, error: GoQueueError) -> bool:
        """Whether a cluster may never answer so, whatever happens to its nodes."""
        return True

    def next_value(self) -> bytes:
        """A value that nobody else sends."""
        self._number += 1
        return b"%s %d" % (self.name.encode(), self._number)

    async def patiently(self, work: Work[T]) -> T:
        """Ask one node after the other until one does it, or the client is stopped. For what may be repeated."""
        while True:
            for node_id in self.rng.sample(NODES, len(NODES)):
                try:
                    return await self.cluster.call(node_id, work)
                except GoQueueError as error:
                    is_known = isinstance(error, PeerUnreachable | ConcurrentTransactions) or wire_of(error).retriable
                    if not is_known or self.is_stopped:
                        raise
            await asyncio.sleep(0.02 + self.rng.random() * 0.1)

    async def once(self, work: Work[T], place: TopicPartition) -> T:
        """Ask the node that leads a partition, as the metadata says."""
        topic = self.cluster.metadata.image.topic(place.topic)
        leader = -1
        if topic is not None:
            leader = self.cluster.metadata.image.assignments(topic.topic_id)[place.partition].leader
        return await self.cluster.call(leader if leader > 0 else self.rng.choice(NODES), work)


async def append(services: Services, place: TopicPartition, batch: bytes, facts: Facts = NO_FACTS) -> int:
    """Store a batch with acks=all; returns the offset of its first record."""
    while (opening := services.publish.opening(*place)) is not None:
        await opening
    pending = services.publish.append(*place, batch, acks=Acks.ALL, facts=facts)
    if pending.durable is not None:
        await pending.durable
    return int(pending.appended.base_offset)


class Sender(Client):
    """An idempotent producer, that repeats a batch until it is acknowledged."""

    def __init__(self, cluster: WholeCluster, history: History, name: str, rng: Random, place: TopicPartition) -> None:
        super().__init__(cluster, history, name, rng)
        self._place = place
        self._producer_id = 0
        self._sequence = 0

    async def turn(self) -> None:
        if not self._producer_id:
            self._producer_id = await self.patiently(_allocated)
        values = [self.next_value() for _ in range(self.rng.randrange(1, 4))]
        self.history.sent.update(values)
        batch = encode_batch(
            [NewRecord(None, value) for value in values],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
            now_ms=self.cluster.clock.now_ms(),
        )
        offset = await self.patiently(lambda services: append(services, self._place, batch))
        known = self.history.acknowledged.setdefault(self._place, {})
        known.update({value: offset + at for at, value in enumerate(values)})
        self._sequence += len(values)
        self.history.count("batches")

    def is_wrong(self, error: GoQueueError) -> bool:
        return True


async def _allocated(services: Services) -> int:
    return await services.producer_ids.allocate()


class Worker(Client):
    """Takes jobs from a queue, writes and delays records and commits an offset, all in transactions."""

    def __init__(self, cluster: WholeCluster, history: History, name: str, rng: Random) -> None:
        super().__init__(cluster, history, name, rng)
        self._producer: Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}

    async def turn(self) -> None:
        name = self.name
        if self._producer is None:
            self._producer = await self.patiently(
                lambda services: services.transactions.init_producer(name, timeout_ms=TIMEOUT_MS)
            )
            self._sequences = dict.fromkeys(places(OUT), 0)
        producer = self._producer
        value = self.next_value()
        piece = self.history.pieces[value] = Piece()
        # Whatever goes wrong from here on: the next turn begins with a new epoch, which ends this transaction.
        self._producer = None
        number = await self.patiently(lambda services: services.transactions.begin(name, producer))
        for place in self.rng.sample(places(JOBS), 2):
            await self.settle(place, producer, number, piece)
        await self.send(producer, number, value, piece)
        if self.rng.random() < 0.6:
            await self.commit_offset(producer, piece)
        await asyncio.sleep(self.rng.random() * 0.3)
        choice = self.rng.random()
        if choice < 0.1:
            return
        commit = choice < 0.75
        await self.patiently(lambda services: services.transactions.end(name, producer, commit=commit, number=number))
        piece.end = commit
        self._producer = producer
        self.history.count("committed" if commit else "aborted")

    def is_wrong(self, error: GoQueueError) -> bool:
        # A transaction that took too long, or whose leases ran out, is refused for good.
        return False

    async def settle(self, place: TopicPartition, producer: Producer, number: int, piece: Piece) -> None:
        request = Receive("g", self.name, [place], self.rng.randrange(1, 4))
        found = await self.once(lambda services: services.delivery.receive(request), place)
        if not found:
            return
        rejects = self.rng.random() < 0.4
        receipts = [one.receipt for one in found]
        await self.patiently(
            lambda services: services.transactions.take_part(self.name, producer, [place], number=number)
        )
        transaction = Transaction(producer.producer_id, producer.epoch)
        (piece.rejected if rejects else piece.acked).update(one.value or b"" for one in found)
        await self.once(
            lambda services: services.delivery.promise(receipts, transaction, rejected=rejects, reason="bad"), place
        )

    async def send(self, producer: Producer, number: int, value: bytes, piece: Piece) -> None:
        place = self.rng.choice(places(OUT))
        refused = await self.patiently(
            lambda services: services.transactions.add_partitions(self.name, producer, [place], number=number)
        )
        if refused:
            raise PeerUnreachable(0, f"{refused}")
        records, dues = [NewRecord(None, value + b" now")], list[int | None]([None])
        piece.later = self.rng.random() < 0.6
        if piece.later:
            records.append(NewRecord(None, value + b" later"))
            dues.append(self.cluster.clock.now_ms() + self.rng.randrange(1, DELAY_MS_MAX))
        batch = encode_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=self._sequences[place],
            transactional=True,
            now_ms=self.cluster.clock.now_ms(),
        )
        self._sequences[place] += len(records)

        async def store(services: Services) -> None:
            await services.staging.load(place)
            await services.publish.verify(producer.producer_id, producer.epoch, place)
            await append(services, place, batch, Facts(dues=dues))

        for _ in range(self.rng.choice([1, 1, 2])):
            await self.patiently(store)

    async def commit_offset(self, producer: Producer, piece: Piece) -> None:
        name, offset = self.name, self._number

        async def commit(services: Services) -> None:
            await services.transactions.add_group(name, producer, name)

        async def add(services: Services) -> None:
            (outcome,) = await services.groups.commit_in_transaction(
                name, [NewOffset(ORDERS, 0, offset)], Transaction(producer.producer_id, producer.epoch)
            )
            if outcome is not None:
                raise outcome

        await self.patiently(commit)
        piece.group, piece.offset = name, offset
        await self.patiently(add)


class Feeder(Client):
    """Brings jobs and tasks. What is not answered may be there; it is counted only if it is."""

    async def turn(self) -> None:
        topic, known = self.rng.choice([(JOBS, self.history.jobs), (TASKS, self.history.tasks)])
        value = self.next_value()
        partition = self.rng.choice(PARTITIONS)

        async def store(services: Services) -> None:
            (result,) = await services.publish.publish_records(
                topic, [NewRecord(None, value)], acks=Acks.ALL, partition=partition
            )
            if result.error is not None:
                raise result.error

        self.history.sent.add(value)
        await self.once(store, TopicPartition(topic, partition))
        known.add(value)
        self.history.count("fed")

    def is_wrong(self, error: GoQueueError) -> bool:
        return not isinstance(error, ProducerError)


class Taker(Client):
    """Takes tasks from a queue group, and acknowledges them or lets them come again."""

    async def turn(self) -> None:
        place = self.rng.choice(places(TASKS))
        # Durably acknowledged before this was asked: must not come any more.
        before = set(self.history.done)
        request = Receive("h", self.name, [place], self.rng.randrange(1, 5), wait_ms=self.rng.choice((0, 500)))
        found: Sequence[Delivery] = await self.once(lambda services: services.delivery.receive(request), place)
        again = {one.value for one in found} & before
        assert not again, f"{again} came again after a durable ack"
        if not found or self.rng.random() < 0.1:
            return
        kept = self.rng.random() < 0.75
        settlements = [
            Settlement(one.receipt, Action.ACK) if kept else Settlement(one.receipt, Action.NACK, delay_ms=100)
            for one in found
        ]
        results = await self.once(lambda services: services.delivery.settle(settlements, durable=True), place)
        for one, result in zip(found, results, strict=True):
            if kept and result.error is None:
                self.history.done.add(one.value or b"")
                self.history.count("acked")

    def is_wrong(self, error: GoQueueError) -> bool:
        return False


class Hurried(Client):
    """Takes tasks of whoever may lead them, does not ask for durable acks, and waits long for answers.

    Only for runs in which no machine loses power: then what was answered must not come any more.
    """

    async def turn(self) -> None:
        place, before = self.rng.choice(places(TASKS)), set(self.history.answered)
        wait_ms = self.rng.choice((0, 500, 5_000))
        request = Receive("hurried", self.name, [place], self.rng.randrange(1, 5), wait_ms=wait_ms)
        found: Sequence[Delivery] = await self._ask(place, lambda services: services.delivery.receive(request))
        again = {one.value for one in found} & before
        assert not again, f"{again} came again after an ack"
        if not found or self.rng.random() < 0.2:
            return
        settlements = [Settlement(one.receipt, Action.ACK) for one in found]
        results = await self._ask(place, lambda services: services.delivery.settle(settlements))
        for one, result in zip(found, results, strict=True):
            if result.error is None:
                self.history.answered.add(one.value or b"")
                self.history.count("answered acks")

    async def _ask(self, place: TopicPartition, work: Work[T]) -> T:
        """The leader, or another node: it may have led before."""
        topic = self.cluster.metadata.image.topic(place.topic)
        leader = -1
        if topic is not None:
            leader = self.cluster.metadata.image.assignments(topic.topic_id)[place.partition].leader
        is_leader = leader >= 0 and self.rng.random() < 0.6
        return await self.cluster.call(leader if is_leader else self.rng.choice(NODES), work, patience_s=30)

    def is_wrong(self, error: GoQueueError) -> bool:
        return False


class Committer(Client):
    """A stream group: its offset goes only forwards once it was told so."""

    async def turn(self) -> None:
        name, before = self.name, self.history.committed.get(self.name, 0)

        async def look(services: Services) -> int:
            found = await services.groups.fetch_offsets(name, [TopicPartition(ORDERS, 0)], require_stable=True)
            return max((one.offset for one in found.values()), default=0)

        async def commit(services: Services) -> None:
            (outcome,) = await services.groups.commit(name, [NewOffset(ORDERS, 0, before + 1)])
            if outcome is not None:
                raise outcome

        found = await self.patiently(look)
        assert found >= before, f"group {name} is at {found}, and was told {before}"
        await self.patiently(commit)
        self.history.committed[name] = before + 1
        self.history.count("offsets")


class Delayer(Client):
    """Sends messages that come later: each once, never early, and none is lost that was answered."""

    async def turn(self) -> None:
        place = self.rng.choice(places(BILLS))
        value = self.next_value()
        due_ms = self.cluster.clock.now_ms() + self.rng.randrange(1, DELAY_MS_MAX)
        self.history.due_ms[value] = due_ms
        held = [Held(NewRecord(None, value), due_ms, place.partition)]
        (outcome,) = await self.once(lambda services: services.delay.hold(BILLS, held), place)
        if isinstance(outcome, SlotId):
            self.history.held.add(value)
            self.history.count("held")
        else:
            raise outcome

    def is_wrong(self, error: GoQueueError) -> bool:
        return False


def everybody(cluster: WholeCluster, history: History, rng: Random, *, late: bool) -> list[Client]:
    """The clients of a run."""

    def chance() -> Random:
        return Random(rng.getrandbits(64))

    topics = [ORDERS, LATE] if late else [ORDERS]
    senders = [
        Sender(cluster, history, f"{topic}-{number}", chance(), TopicPartition(topic, number))
        for topic in topics
        for number in PARTITIONS
    ]
    return [
        *senders,
        *(Worker(cluster, history, name, chance()) for name in ("one", "two")),
        Feeder(cluster, history, "feeder", chance()),
        Feeder(cluster, history, "feeder-b", chance()),
        *(Taker(cluster, history, name, chance()) for name in ("taker", "taker-b")),
        Committer(cluster, history, "stream", chance()),
        *(Delayer(cluster, history, name, chance()) for name in ("delayer", "delayer-b")),
    ]
