"""When a batch is due: by count, by size, by waiting, or at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.producing.accumulator import Accumulator
from goqueue.records import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


def accumulator(**changes: int) -> Accumulator[int]:
    settings = {"batch_records_max": 100, "batch_bytes_max": 64 * 1024, "linger_ms": 5} | changes
    return Accumulator(**settings)


def test_the_hundredth_record_makes_a_batch_due():
    waiting = accumulator()

    due = [waiting.add(ORDERS_0, number, 10, now_ms=0) for number in range(100)]

    assert due == [False] * 99 + [True]
    assert [len(batch.records) for batch in waiting.take_due(now_ms=0)] == [100]


def test_a_batch_is_due_at_64_kilobytes_before_it_has_100_records():
    waiting = accumulator()

    assert not waiting.add(ORDERS_0, 1, 40_000, now_ms=0)
    assert waiting.add(ORDERS_0, 2, 25_536, now_ms=0)


def test_a_record_that_would_pass_the_size_begins_a_new_batch():
    waiting = accumulator()
    waiting.add(ORDERS_0, 1, 60_000, now_ms=0)

    waiting.add(ORDERS_0, 2, 10_000, now_ms=0)

    assert [batch.records for batch in waiting.take_all()] == [[1], [2]]


def test_a_lone_record_is_due_after_five_milliseconds_and_not_before():
    waiting = accumulator()
    waiting.add(ORDERS_0, 1, 10, now_ms=1000)

    assert waiting.next_due_ms() == 1005
    assert waiting.take_due(now_ms=1004) == []
    assert [batch.records for batch in waiting.take_due(now_ms=1005)] == [[1]]


def test_without_linger_every_record_goes_at_once():
    assert accumulator(linger_ms=0).add(ORDERS_0, 1, 10, now_ms=0)


def test_partitions_fill_batches_of_their_own():
    waiting = accumulator(batch_records_max=2)
    waiting.add(ORDERS_0, 1, 10, now_ms=0)
    waiting.add(ORDERS_1, 2, 10, now_ms=0)
    waiting.add(ORDERS_0, 3, 10, now_ms=0)

    assert [(batch.target, batch.records) for batch in waiting.take_due(now_ms=0)] == [(ORDERS_0, [1, 3])]
    assert [(batch.target, batch.records) for batch in waiting.take_all()] == [(ORDERS_1, [2])]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 70_000)), max_size=300),
    linger_ms=st.integers(0, 3),
)
def test_whatever_is_added_comes_out_once_and_in_order_per_partition(sizes, linger_ms):
    waiting = accumulator(linger_ms=linger_ms, batch_records_max=7)
    taken = []
    for number, (partition, size) in enumerate(sizes):
        if waiting.add(TopicPartition("orders", partition), number, size, now_ms=number):
            taken += waiting.take_due(now_ms=number)
    taken += waiting.take_all()

    for partition in range(3):
        sent = [number for number, (where, _) in enumerate(sizes) if where == partition]
        assert [n for batch in taken if batch.target.partition == partition for n in batch.records] == sent
    assert waiting.take_all() == []


def test_a_batch_fills_up_while_another_is_under_way_and_keeps_its_order():
    waiting = accumulator(batch_records_max=4)
    waiting.add(ORDERS_0, 1, 10, now_ms=0)
    [earlier] = waiting.take_all()
    waiting.add(ORDERS_0, 2, 10, now_ms=1)
    [later] = waiting.take_all()

    assert waiting.join(earlier, later)
    assert (earlier.records, earlier.bytes) == ([1, 2], 20)


def test_a_batch_takes_in_no_other_that_would_pass_its_limits():
    waiting = accumulator(batch_records_max=3)
    for number in range(4):
        waiting.add(ORDERS_0, number, 10, now_ms=0)
    earlier, later = waiting.take_all()

    assert not waiting.join(earlier, later)
    assert (earlier.records, later.records) == ([0, 1, 2], [3])
