"""Fetched, processed, committed: nothing is committed that was not dealt with."""

from __future__ import annotations

from goqueue.client.consuming.positions import Positions
from goqueue.client.types import Message
from goqueue.records import TopicPartition

AT = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def message(offset: int, at: TopicPartition = AT) -> Message:
    return Message(at.topic, at.partition, offset, 0, None, b"")


def with_three_fetched() -> Positions:
    positions = Positions()
    positions.take_in([message(5), message(6), message(7)], {AT: 8})
    return positions


def test_a_message_is_processed_only_when_the_program_comes_back():
    positions = with_three_fetched()

    positions.hand_out(2)
    assert positions.to_commit() == {}

    positions.settle()
    assert positions.to_commit() == {AT: 7}


def test_what_is_committed_is_not_committed_again():
    positions = with_three_fetched()
    positions.hand_out(1)
    positions.settle()
    positions.committed(positions.to_commit())

    assert positions.to_commit() == {}


def test_reading_goes_on_where_the_last_fetch_ended_even_with_messages_buffered():
    assert with_three_fetched().to_fetch([AT, OTHER]) == {"orders": {"0": 8}}


def test_a_lost_partition_takes_its_messages_and_positions_with_it():
    positions = with_three_fetched()
    positions.take_in([message(1, OTHER)], {OTHER: 2})
    positions.hand_out(1)

    positions.forget(frozenset({AT}))

    assert [m.partition for m in positions.hand_out(10)] == [1]
    assert positions.to_fetch([AT]) == {}


def test_seeking_drops_what_was_fetched_and_reads_from_there():
    positions = with_three_fetched()

    positions.seek(AT, 2)

    assert not positions
    assert positions.to_fetch([AT]) == {"orders": {"0": 2}}
