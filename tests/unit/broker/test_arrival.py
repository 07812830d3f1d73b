"""The way in is a list of steps: what a step may do to a batch, and which batches pass it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.unit.broker.stack import Stack

from goqueue.broker.arrivals.arrival import Arrival, Facts, HeldAt
from goqueue.broker.replicas.partitions import Partition
from goqueue.caller import ANONYMOUS, Caller
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.errors import CorruptBatch, InvalidRecord
from goqueue.records import Acks, NewRecord

if TYPE_CHECKING:
    from goqueue.ports import Buffer

ALICE = Caller(principal="User:alice", client_id="app", address="10.0.0.7", protocol="kafka")


class Spy:
    """A step that does what a test says to batches of some topics."""

    def __init__(self, do: Callable[[Arrival], None], *, topic: str = "t") -> None:
        self.do = do
        self.topic = topic
        self.asked = 0

    def applies(self, partition: Partition, facts: Facts) -> bool:
        self.asked += 1
        return partition.topic_name == self.topic or facts.dues is not None

    def __call__(self, arrival: Arrival) -> None:
        self.do(arrival)


async def test_a_step_that_raises_refuses_the_batch_and_it_is_counted() -> None:
    def refuse(arrival: Arrival) -> None:
        raise InvalidRecord(f"{arrival.caller.principal} may not")

    stack = Stack(asked_of_clients=[Spy(refuse)])
    await stack.topic()
    with pytest.raises(InvalidRecord, match="User:alice may not"):
        stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER, caller=ALICE)
    assert await stack.read_all() == []
    assert stack.partitions.leader("t", 0).traffic.failures.total() == 1


async def test_a_step_that_thins_a_batch_leaves_its_offsets_and_its_sequence() -> None:
    spy = Spy(lambda arrival: arrival.thin([one for one in arrival.records() if one.value != b"bad"]))
    stack = Stack(asked_of_clients=[spy])
    await stack.topic()
    records = [NewRecord(None, value) for value in (b"a", b"bad", b"c")]
    sent = encode_batch(
        records, codec=Codec.ZSTD, producer_id=7, producer_epoch=0, base_sequence=0, now_ms=stack.clock.now_ms()
    )
    pending = stack.publish.append("t", 0, sent, acks=Acks.LEADER)
    assert (pending.appended.base_offset, pending.appended.last_offset) == (0, 2)
    assert stack.publish.append("t", 0, sent, acks=Acks.LEADER).appended.duplicate
    await stack.write(b"bad")
    await stack.write(b"d")
    assert [(one.offset, one.value) for one in await stack.read_all()] == [(0, b"a"), (2, b"c"), (4, b"d")]
    assert stack.partitions.leader("t", 0).traffic.messages_in == 3


async def test_the_reply_waits_for_what_a_step_adds() -> None:
    gates = [asyncio.get_running_loop().create_future() for _ in range(2)]

    def add(arrival: Arrival) -> None:
        for gate in gates:
            arrival.wait_for(gate)
        arrival.wait_for(None)

    stack = Stack(asked_of_clients=[Spy(add)])
    await stack.topic()
    assert stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.NONE).durable is None
    pending = stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    assert pending.durable is not None
    waiting = asyncio.ensure_future(pending.durable)
    for gate in gates:
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set_result(None)
    await waiting


async def test_the_steps_of_a_partition_are_chosen_once_and_again_when_its_topic_is_altered() -> None:
    spy = Spy(lambda _: None)
    stack = Stack(asked_of_clients=[spy])
    await stack.topic("t", 2)
    for partition in (0, 1, 0, 1):
        stack.publish.append("t", partition, stack.batch(b"v"), acks=Acks.LEADER)
    assert spy.asked == 2
    await stack.topics.alter_config("t", {"cleanup.policy": "compact"})
    for _ in range(2):
        with pytest.raises(InvalidRecord, match="no key"):
            stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    assert spy.asked == 3


async def test_a_batch_whose_times_are_said_passes_the_step_that_wants_them_and_no_other_batch_does() -> None:
    passed: list[int] = []
    stack = Stack(asked_of_clients=[Spy(lambda arrival: passed.append(arrival.header.count), topic="other")])
    await stack.topic()
    stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    stack.publish.append("t", 0, stack.batch(b"v", b"w"), acks=Acks.LEADER, facts=Facts(dues=[None, None]))
    stack.publish.append("t", 0, stack.batch(b"v"), acks=Acks.LEADER)
    assert passed == [2]


async def test_hooks_are_told_who_sent_what_and_nothing_of_a_repeat() -> None:
    told: list[tuple[str, int, int, int]] = []
    stack = Stack(
        after_append=[lambda arrival, first, last: told.append((arrival.caller.client_id, arrival.acks, first, last))]
    )
    await stack.topic()
    sent = encode_batch(
        [NewRecord(None, b"a"), NewRecord(None, b"b")], producer_id=7, producer_epoch=0, base_sequence=0, now_ms=1
    )
    for _ in range(2):
        stack.publish.append("t", 0, sent, acks=Acks.LEADER, caller=ALICE)
    await stack.publish.publish_records("t", [NewRecord(None, b"c")], acks=Acks.ALL, caller=ALICE)
    assert told == [("app", Acks.LEADER, 0, 1), ("app", Acks.ALL, 2, 2)]


@pytest.mark.parametrize("codec", list(Codec))
async def test_a_batch_is_opened_once_however_many_steps_look_into_it(codec: Codec) -> None:
    seen: list[object] = []
    spies = [Spy(lambda arrival: seen.append(arrival.records())) for _ in range(3)]
    stack = Stack(asked_of_clients=spies)
    await stack.topic(cleanup_policy="compact")
    sent = encode_batch([NewRecord(b"k", b"v")], codec=codec, now_ms=stack.clock.now_ms())
    stack.publish.append("t", 0, sent, acks=Acks.LEADER)
    assert seen[0] is seen[1] is seen[2]


def arrival_of(batch: Buffer) -> Arrival:
    partition: Partition = None  # type: ignore[assignment]  # nothing here looks at it
    return Arrival(partition, parse_batch_header(batch), batch, Acks.LEADER, ANONYMOUS, 0)


def test_a_damaged_batch_is_not_opened() -> None:
    batch = bytearray(encode_batch([NewRecord(b"k", b"value")], now_ms=0))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        arrival_of(batch).records()


def test_a_batch_that_unpacks_beyond_the_bound_is_refused() -> None:
    from goqueue.broker.arrivals import arrival as module

    batch = encode_batch([NewRecord(None, bytes(5000))], codec=Codec.ZSTD, now_ms=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECORDS_BYTES_MAX", 1000)
        with pytest.raises((CorruptBatch, InvalidRecord)):
            arrival_of(batch).records()


async def test_the_sender_is_told_of_held_records_though_there_is_nothing_to_wait_for() -> None:
    def hold(arrival: Arrival) -> None:
        arrival.thin(arrival.records()[:1])
        arrival.held = {1: HeldAt(0, 7, 99)}

    stack = Stack(asked_of_clients=[Spy(hold)])
    await stack.topic()
    for acks in Acks:
        pending = stack.publish.append("t", 0, stack.batch(b"now", b"later"), acks=acks)
        assert pending.slots == {1: HeldAt(0, 7, 99)}
