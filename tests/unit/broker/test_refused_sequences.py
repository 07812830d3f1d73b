"""Refused sequences: what a new producer has sent behind a batch that was sent away is not written before it."""

from __future__ import annotations

import pytest
from tests.unit.broker.stack import Stack, values_in

from goqueue.broker.arrivals.refused_sequences import KEPT_MAX, KEPT_MS, RefusedSequences
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import InvalidRecord, NotLeader, TopicNotFound
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock


def batch(sequence: int, producer_id: int = 7) -> bytes:
    return encode_batch(
        [NewRecord(None, b"%d" % sequence)], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, now_ms=1
    )


async def send(stack: Stack, data: bytes, topic: str = "t") -> None:
    pending = stack.publish.append(topic, 0, data, acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable


async def test_the_second_batch_waits_for_the_first_which_came_before_the_topic_was_known() -> None:
    stack = await Stack().start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    with pytest.raises(NotLeader, match="sequence 0 before it was refused"):
        await send(stack, batch(1))
    for sequence in (0, 1, 2):
        await send(stack, batch(sequence))
    assert values_in(await stack.read()) == [b"0", b"1", b"2"]
    await stack.stop()


async def test_another_producer_and_one_whose_history_is_gone_begin_where_they_like() -> None:
    stack = await Stack().start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    await send(stack, batch(41, producer_id=8))
    assert values_in(await stack.read()) == [b"41"]
    await stack.stop()


async def test_a_refusal_is_forgotten_after_a_while() -> None:
    clock = ManualClock()
    stack = await Stack(clock=clock).start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    clock.advance(ms=KEPT_MS + 1)
    await send(stack, batch(1))
    await stack.stop()


async def test_a_producer_that_has_given_the_first_batch_up_does_not_wait_for_ever() -> None:
    clock = ManualClock()
    stack = await Stack(clock=clock).start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    for _ in range(6):
        with pytest.raises(NotLeader):
            await send(stack, batch(1))
        clock.advance(ms=KEPT_MS // 6)
    clock.advance(ms=10)
    await send(stack, batch(1))
    assert values_in(await stack.read()) == [b"1"]
    await stack.stop()


def header(sequence: int, producer_id: int) -> BatchHeader:
    return parse_batch_header(batch(sequence, producer_id))


def test_what_is_remembered_is_bounded_and_only_what_comes_again() -> None:
    refused = RefusedSequences()
    for producer_id in range(KEPT_MAX + 10):
        refused.note("t", 0, header(0, producer_id), TopicNotFound("t"), now_ms=1)
    assert len(refused) == KEPT_MAX
    refused.note("t", 0, header(0, 1), TopicNotFound("t"), now_ms=KEPT_MS + 2)
    assert len(refused) == 1, "what is older has expired"
    refused.note("t", 0, header(0, 2), InvalidRecord("no"), now_ms=KEPT_MS + 2)
    assert len(refused) == 1, "a producer does not send again what is wrong"
