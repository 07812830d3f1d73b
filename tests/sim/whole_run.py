"""One run of a whole simulated cluster: clients, faults, then peace and all checks. One seed, one run."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.sim.test_transaction_crashes import committed_values
from tests.sim.whole_clients import (
    BILLS,
    DELAY_MS_MAX,
    JOBS,
    LATE,
    ORDERS,
    OUT,
    PARTITIONS,
    TASKS,
    TIMEOUT_MS,
    TOPICS,
    Client,
    History,
    Hurried,
    everybody,
    places,
)
from tests.sim.whole_cluster import WholeCluster
from tests.sim.whole_faults import POWERED, PROFILES, Faults, Profile

from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import NewTopic
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import TopicExists, wire_of
from goqueue.log.partition_log import PartitionLog
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng

LETTERS = f"{JOBS}.dlq"
_SETTLE_S_MAX = 180


@dataclass
class Outcome:
    """What a run did, for whoever wants to know whether it tried anything."""

    counts: dict[str, int]
    faults: dict[str, int]
    epochs: int


class WholeRun:
    """A cluster, its clients and its faults."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self.cluster = WholeCluster(seed, kv_faults=profile.kv_faults)
        self.history = History()
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._profile = profile
        self._seed = seed

    async def play(self, seconds: float) -> Outcome:
        cluster = self.cluster
        await self._create()
        clients = everybody(cluster, self.history, seeded_rng(self._seed, "clients"), late=True)
        if self._profile is POWERED:
            chance = seeded_rng(self._seed, "hurried")
            for name in ("hurried-a", "hurried-b", "hurried-c", "hurried-d"):
                clients.append(Hurried(cluster, self.history, name, Random(chance.getrandbits(64))))
        sending = [asyncio.create_task(client.run()) for client in clients]
        watching = asyncio.create_task(self._watch())
        faults = Faults(cluster, seeded_rng(self._seed, "faults"), self._profile, copies_added=True)
        try:
            await _unless_failed(faults.run(seconds), [*sending, watching])
            for client in clients:
                client.is_stopped = True
            await asyncio.gather(*sending)
            await self._settle()
            self.look()
            await self._check(clients)
        finally:
            for task in (*sending, watching):
                task.cancel()
        epochs = sum(one.leader_epoch for _, _, one in cluster.assignments())
        return Outcome(self.history.counts, dict(faults.counts), epochs)

    async def _create(self) -> None:
        async def create(services: Services, topic: str, copies: int) -> None:
            if services.topics.find(topic) is None:
                new = NewTopic(topic, partitions=len(PARTITIONS), replication_factor=copies)
                # An earlier attempt may have been made without an answer.
                with suppress(TopicExists):
                    await services.topics.create(new)

        for topic in (*TOPICS, LATE):
            await self.cluster.somewhere(
                lambda services, topic=topic: create(services, topic, 1 if topic == LATE else 3)
            )
        while any(self.cluster.metadata.image.topic(topic) is None for topic in (*TOPICS, LATE)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    # --- while it runs ----------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.05)

    def look(self) -> None:
        """One leader per epoch, and no settled leader whose high watermark is below what was acknowledged."""
        for node, slot in self.cluster.slots.items():
            services = slot.services
            if services is None or slot.life is None or slot.life.is_over:
                continue
            for partition in partitions_of(services).all_open():
                if partition.is_led_here:
                    self._check_leader(node, partition)

    def _check_leader(self, node: int, partition: Partition) -> None:
        place, epoch = partition.key, partition.leader_epoch
        first = self._leaders.setdefault((place, epoch), node)
        assert first == node, f"nodes {first} and {node} both led {place} in epoch {epoch}"
        current = self.cluster.metadata.image.assignments(partition.topic_id)[place.partition]
        if current.leader != node or current.leader_epoch != epoch or not partition.writer.is_settled:
            return
        acknowledged = max(self.history.acknowledged.get(place, {}).values(), default=-1)
        assert partition.log.high_watermark > acknowledged, (
            f"node {node} leads {place} in epoch {epoch} with high watermark {partition.log.high_watermark}, "
            f"but {acknowledged} was acknowledged"
        )

    # --- when all is over -------------------------------------------------------------------

    async def _settle(self) -> None:
        deadline = self.cluster.loop.time() + _SETTLE_S_MAX
        problem = "nothing was looked at"
        while self.cluster.loop.time() < deadline:
            problem = self._unsettled()
            if not problem:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"after {_SETTLE_S_MAX} s of peace: {problem}")

    def _unsettled(self) -> str:
        for node, slot in self.cluster.slots.items():
            if slot.services is None:
                return f"node {node} does not serve"
        for topic, number, one in self.cluster.assignments():
            place = TopicPartition(topic.name, number)
            if one.leader < 0 or set(one.isr) != {*one.replicas, *one.adding} or one.adding:
                return f"{place}: {one}"
            ends = set()
            for node in one.replicas:
                replica = partitions_of(self._services(node)).replica(*place)
                if any(member.log.damage for member in replica.members()):
                    return f"{place} on node {node} is damaged"
                if replica.log.high_watermark != replica.log.end_offset:
                    return f"{place} on node {node}: high watermark {replica.log.high_watermark}"
                ends.add(replica.log.end_offset)
            if len(ends) > 1:
                return f"{place}: logs end at {ends}"
        return ""

    def _services(self, node: int) -> Services:
        services = self.cluster.slots[node].services
        assert services is not None
        return services

    async def _check(self, clients: list[Client]) -> None:
        del clients
        # All transactions end by their time, and all that is delayed comes.
        await asyncio.sleep((TIMEOUT_MS + DELAY_MS_MAX) / 1000 + 4)
        drained = await self._drain("g", JOBS)
        await self._check_tasks(await self._drain("h", TASKS))
        await self._settle()
        self._check_replicas()
        await self._check_orders()
        await self._check_pieces(drained)
        await self._check_offsets()
        await self._check_delays()

    def _check_replicas(self) -> None:
        """Logs that were never compacted are the same everywhere, byte by byte."""
        for topic, number, one in self.cluster.assignments():
            place = TopicPartition(topic.name, number)
            logs = {node: partitions_of(self._services(node)).replica(*place).log for node in one.replicas}
            if all(log.is_dense and log.start_offset == 0 for log in logs.values()):
                frames = {node: _frames(log) for node, log in logs.items()}
                first = frames[one.leader]
                for node, found in frames.items():
                    assert found == first, f"node {node} has other bytes in {place} than node {one.leader}"

    async def _check_orders(self) -> None:
        for topic in (ORDERS, LATE):
            for place in places(topic):
                stored = await self._values(place)
                assert len(stored) == len(set(stored)), f"{place} has something twice"
                assert set(stored) <= self.history.sent, f"{place} has something that nobody sent"
                for value, offset in self.history.acknowledged.get(place, {}).items():
                    found = stored[offset] if offset < len(stored) else None
                    assert found == value, f"{place}: {value!r} was acknowledged at {offset}, there is {found!r}"

    async def _check_tasks(self, drained: Counter[bytes]) -> None:
        again = drained.keys() & self.history.done
        assert not again, f"{again} came again after a durable ack"
        lost = self.history.tasks - self.history.done - drained.keys()
        # An ack that was not answered may have been made.
        stored = {value for place in places(TASKS) for value in await self._values(place)}
        assert self.history.tasks <= stored, "an acknowledged task is gone"
        self.history.counts["unanswered acks"] = len(lost)

    async def _check_pieces(self, drained: Counter[bytes]) -> None:
        seen = Counter([value or b"" for place in places(OUT) for value in await self._values(place)])
        letters = Counter[bytes]()
        if self.cluster.metadata.image.topic(LETTERS) is not None:
            letters.update([value for place in places(LETTERS) for value in await self._values(place)])
        assert not set(letters.values()) - {1}, f"a dead letter came twice: {letters}"
        acked, rejected = Counter[bytes](), Counter[bytes]()
        for value, piece in self.history.pieces.items():
            shown, later = seen[value + b" now"], seen[value + b" later"]
            assert shown in {0, 1}, f"{value!r} is there {shown} times"
            assert piece.end is None or piece.end is bool(shown), f"{value!r} was promised {piece.end}: {shown}"
            assert later == (shown and piece.later), f"{value!r} is there {shown} times, its delayed one {later}"
            if shown:
                acked.update(piece.acked)
                rejected.update(piece.rejected)
        done = [*acked.elements(), *rejected.elements(), *drained]
        assert len(done) == len(set(done)), f"a job was done twice: {[x for x in done if done.count(x) > 1]}"
        assert set(done) >= self.history.jobs, f"jobs were lost: {self.history.jobs - set(done)}"
        assert set(letters) == set(rejected), "the dead letters are not the rejected jobs"

    async def _check_offsets(self) -> None:
        shown = {value for place in places(OUT) for value in await self._values(place)}
        groups: dict[str, int] = dict(self.history.committed)
        for value, piece in self.history.pieces.items():
            if piece.group and value + b" now" in shown:
                groups[piece.group] = max(groups.get(piece.group, 0), piece.offset)

        async def look(services: Services, group: str) -> int:
            found = await services.groups.fetch_offsets(group, [TopicPartition(ORDERS, 0)], require_stable=True)
            return max((one.offset for one in found.values()), default=0)

        for group, expected in groups.items():
            found = await self.cluster.somewhere(lambda services, group=group: look(services, group))
            # A stream's commit that was not answered may have been made.
            wanted = {expected, expected + 1} if group in self.history.committed else {expected}
            assert found in wanted, f"group {group} is at {found}, and was told {expected}"

    async def _check_delays(self) -> None:
        seen = Counter([value for place in places(BILLS) for value in await self._values(place)])
        twice = [value for value, count in seen.items() if count > 1]
        assert not twice, f"delayed messages came twice: {twice}"
        lost = self.history.held - seen.keys()
        assert not lost, f"delayed messages were lost: {lost}"
        assert seen.keys() <= self.history.due_ms.keys()

    async def _drain(self, group: str, topic: str) -> Counter[bytes]:
        """Take and acknowledge everything that nobody holds any more."""
        drained = Counter[bytes]()
        for place in places(topic):
            for _ in range(1000):
                request = Receive(group, "drain", [place], 100, wait_ms=4_000)
                found: list[Delivery] = await self._at_leader(
                    place, lambda services, request=request: services.delivery.receive(request)
                )
                if not found:
                    break
                settlements = [Settlement(one.receipt, Action.ACK) for one in found]
                results = await self._at_leader(
                    place,
                    lambda services, settlements=settlements: services.delivery.settle(settlements, durable=True),
                )
                for result in results:
                    assert result.error is None, result.error
                drained.update(one.value or b"" for one in found)
            else:
                raise AssertionError(f"{place} does not run empty")
        assert not set(drained.values()) - {1}, f"{group} got something twice"
        return drained

    async def _at_leader(self, place: TopicPartition, work):  # type: ignore[no-untyped-def]
        """Ask in peace: nothing is lost on the way."""
        for _ in range(200):
            topic = self.cluster.metadata.image.topic(place.topic)
            assert topic is not None
            leader = self.cluster.metadata.image.assignments(topic.topic_id)[place.partition].leader
            slot = self.cluster.slots.get(leader)
            if slot is not None and slot.services is not None and slot.life is not None:
                try:
                    return await self.cluster.loop.start(slot.life, work(slot.services))
                except Exception as error:
                    if not wire_of(error).retriable:  # type: ignore[arg-type]
                        raise
            await asyncio.sleep(0.1)
        raise AssertionError(f"the leader of {place} does not answer")

    async def _values(self, place: TopicPartition) -> list[bytes]:
        found = await self._at_leader(place, lambda services: committed_values(services, place))
        return [value or b"" for value in found]


def run_whole(seed: int, *, seconds: float = 25.0, profile: Profile | None = None) -> Outcome:
    """Play it; raises AssertionError if something does not hold. Without a profile the seed chooses one."""
    run = WholeRun(seed, profile or PROFILES[seed % len(PROFILES)])
    outcome: list[Outcome] = []

    async def story() -> None:
        outcome.append(await run.play(seconds))

    run.cluster.play(story)
    return outcome[0]


def partitions_of(services: Services) -> Partitions:
    """The replicas of a node."""
    return services.queries._partitions


async def _unless_failed(work, others):  # type: ignore[no-untyped-def]
    """Wait for something, unless one of the others fails meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait([task, *others], return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            if other.done() and not task.done():
                task.cancel()
                other.result()
                raise AssertionError("a client ended too early")
    return task.result()


def _frames(log: PartitionLog) -> list[bytes]:
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        read = log.read_frames(offset, max_bytes=1 << 20, upper=log.end_offset)
        found += [bytes(frame) for frame in read.batches]
        offset = read.next_offset
    return found
