"""What must hold in a cluster whatever happens: while it runs, and when all nodes are back and have caught up."""

# ruff: noqa: S101  (a check that fails is what a test is told)

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.broker.replicas.partition import Partition
from goqueue.codec.batch_decode import decode_records
from goqueue.errors import CorruptFrame
from goqueue.log.partition_log import PartitionLog
from goqueue.records import LogKind, TopicPartition
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.cluster.replica_node import ReplicaNode
from goqueue.testing.cluster.workload import History

_LOOK_S = 0.02
_SETTLE_S_MAX = 120


class Watch:
    """Looks at all nodes every few milliseconds, whenever the metadata changes, and whenever a log is cut."""

    def __init__(self, cluster: SimCluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        # Who led in each epoch of each partition.
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        # What was read last of each in-sync replica: the same is not read twice.
        self._seen: dict[tuple[int, TopicPartition], object] = {}
        # What was found between two looks.
        self._problem: AssertionError | None = None
        cluster.metadata.subscribe(lambda _: self._note(self._look_at_all))
        cluster.on_rework = lambda node, partition: self._note(lambda: self._check_member(node, partition))

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Check what holds at every moment."""
        if self._problem is not None:
            raise self._problem
        self._look_at_all()

    def _note(self, check: Callable[[], None]) -> None:
        """Check, where nobody can be told at once."""
        try:
            check()
        except AssertionError as problem:
            self._problem = self._problem or problem

    def _look_at_all(self) -> None:
        for number, slot in self._cluster.slots.items():
            if slot.node is None or slot.life is None or slot.life.is_over:
                continue
            for partition in slot.node.partitions.all_open():
                if partition.is_led_here:
                    self._check_leader(number, slot.node, partition)
                self._check_member(number, partition)

    def _check_member(self, number: int, partition: Partition) -> None:
        """Whoever is in sync may be elected at any moment: it has all that was acknowledged."""
        place = partition.key
        last = self._history.last_acknowledged.get(place)
        if last is None or number not in self._cluster.stored(place.partition).isr or partition.log.busy_with:
            return
        log = partition.log
        assert log.end_offset >= last.end, (
            f"node {number} is in sync in {place} and ends at {log.end_offset}, but {last.end} was acknowledged"
        )
        key = (number, place, id(log), last.end)
        if self._seen.get((number, place)) == key:
            return
        try:
            (*_, (_, _, found)) = _values_from(log, last.end - len(last.values), last.end)
        except CorruptFrame:
            # Its file rots, and is repaired from others.
            return
        self._seen[number, place] = key
        assert found == last.values[-1], (
            f"node {number} is in sync in {place} and has {found!r} where {last.values[-1]!r} was acknowledged"
        )

    def _check_leader(self, number: int, node: ReplicaNode, partition: Partition) -> None:
        place, epoch = partition.key, partition.leader_epoch
        first = self._leaders.setdefault((place, epoch), number)
        assert first == number, f"nodes {first} and {number} both led {place} in epoch {epoch}"
        current = self._cluster.metadata.image.assignments(partition.topic_id)[place.partition]
        led = node.terms.find(place)
        if led is None or current.leader != number or current.leader_epoch != epoch:
            return
        if led.writers[LogKind.DATA].is_settled:
            acknowledged = max((one.end for one in self._history.acknowledged(place)), default=0)
            watermark = partition.log.high_watermark
            assert watermark >= acknowledged, (
                f"node {number} leads {place} in epoch {epoch} with high watermark {watermark}, "
                f"but {acknowledged} was acknowledged"
            )


async def settle(cluster: SimCluster) -> None:
    """Wait until every replica is in sync and has everything."""
    deadline = cluster.loop.time() + _SETTLE_S_MAX
    problem = "nothing was looked at"
    while cluster.loop.time() < deadline:
        problem = _unsettled(cluster)
        if not problem:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"after {_SETTLE_S_MAX} s of peace: {problem}")


def check_everything(cluster: SimCluster, history: History) -> None:
    """All that was acknowledged is there once and in order, nothing was invented, and all replicas are the same."""
    for number in range(cluster.partitions):
        place = TopicPartition(TOPIC, number)
        replicas = {node: slot.node.partitions.replica(*place) for node, slot in cluster.slots.items() if slot.node}
        frames = {node: _frames(replica.log) for node, replica in replicas.items()}
        one = next(iter(frames.values()))
        for node, other in frames.items():
            assert other == one, f"node {node} has other bytes in {place}"
        log = next(iter(replicas.values())).log
        _check_values(history, place, _values(log))
        for node, replica in replicas.items():
            _check_slots(history, node, replica)


def _unsettled(cluster: SimCluster) -> str:
    for number in range(cluster.partitions):
        place = TopicPartition(TOPIC, number)
        topic = cluster.metadata.image.topic(TOPIC)
        if topic is None:
            return "there is no topic"
        assignment = cluster.metadata.image.assignments(topic.topic_id)[number]
        if set(assignment.isr) != set(assignment.replicas):
            return f"{place}: the ISR is {assignment.isr}, leader {assignment.leader}"
        ends: dict[LogKind, set[int]] = {kind: set() for kind in LogKind}
        for node, slot in cluster.slots.items():
            if slot.node is None:
                return f"node {node} does not run"
            replica = slot.node.partitions.replica(*place)
            for member in replica.members():
                ends[member.kind].add(member.log.end_offset)
                if member.log.damage:
                    return f"{place} on node {node}: {member.log.damage[0]}"
                if member.log.high_watermark != member.log.end_offset:
                    return f"{place} on node {node}: {member.kind.name} high watermark {member.log.high_watermark}"
        if any(len(found) > 1 for found in ends.values()):
            return f"{place}: logs end at {ends}"
    return ""


def _frames(log: PartitionLog) -> list[bytes]:
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        read = log.read_frames(offset, max_bytes=1 << 20, upper=log.end_offset)
        found += [bytes(frame) for frame in read.batches]
        offset = read.next_offset
    return found


def _values(log: PartitionLog) -> list[tuple[int, bytes | None, bytes]]:
    return _values_from(log, log.start_offset, log.end_offset)


def _values_from(log: PartitionLog, offset: int, end: int) -> list[tuple[int, bytes | None, bytes]]:
    found: list[tuple[int, bytes | None, bytes]] = []
    while offset < end:
        read = log.read_batches(offset, max_bytes=1 << 20, upper=end)
        for batch in read.batches:
            found += [(record.offset, record.key, record.value or b"") for record in decode_records(batch)]
        offset = read.next_offset
    return found


def _check_values(history: History, place: TopicPartition, stored: list[tuple[int, bytes | None, bytes]]) -> None:
    by_value: dict[bytes, int] = {}
    for offset, _, value in stored:
        assert value not in by_value, f"{place} has {value!r} twice, at {by_value[value]} and {offset}"
        by_value[value] = offset
    sent = {value for one in history.sent if one.place == place for value in one.values}
    assert by_value.keys() <= sent, f"{place} has values that nobody sent: {by_value.keys() - sent}"
    last: dict[bytes, int] = {}
    for one in history.acknowledged(place):
        for at, value in enumerate(one.values):
            offset = one.end - len(one.values) + at
            assert by_value.get(value) == offset, (
                f"{place}: {value!r} was acknowledged at offset {offset} and is at {by_value.get(value)}"
            )
        producer = one.values[0].partition(b"/")[0]
        assert one.end > last.get(producer, -1), f"{place}: producer {producer!r} was stored out of order"
        last[producer] = one.end


def _check_slots(history: History, node: int, replica: Partition) -> None:
    """Of what was acknowledged, whoever has a record that belongs to a slot has the slot."""
    acknowledged = {one.values[0] for one in history.acknowledged(replica.key)}
    named = [key.removeprefix(b"slot:") for _, key, _ in _values(replica.log) if key is not None]
    wanted = [slot for slot in named if slot in acknowledged]
    delay = replica.member(LogKind.DELAY)
    there = set() if delay is None else {key for _, key, _ in _values(delay.log)}
    missing = [slot for slot in wanted if slot not in there]
    assert not missing, f"node {node} has records of {replica.key} whose slots are missing: {missing[:5]}"
