"""A column of keys goes where the broker would put each key."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="needs goqueue[spark]")
pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from goqueue.partitioner import partition_for_key  # noqa: E402
from goqueue.pipeline.sink.key_hashes import partitions_of  # noqa: E402
from goqueue.pipeline.sink.targets import Target, first_turn  # noqa: E402

keys = st.binary(max_size=9) | st.sampled_from([bytes(16), b"\xff" * 31, b"key-0000001"]) | st.none()


@given(st.lists(keys, min_size=1, max_size=60), st.integers(1, 7), st.sampled_from(["murmur2", "murmur3"]))
@settings(deadline=None)
def test_keys_go_where_the_broker_puts_them(column, partitions, algorithm):
    array = pa.array(column, pa.binary())
    for part, first in ((array, 0), (array.slice(len(column) // 2), len(column) // 2)):
        found = partitions_of(part, partitions, algorithm)
        for key, partition in zip(column[first:], found.tolist(), strict=True):
            assert key is None or partition == partition_for_key(key, partitions, algorithm)


def test_a_row_goes_where_it_says_then_by_its_key_then_in_turn():
    target = Target("t", 4, record_bytes_max=50, holds_delayed=False, turn=3, partitioner="murmur2")
    keys = pa.array([b"a", None, b"a", b"too long" * 10], pa.binary())

    chosen = target.choose(keys, pa.array([None, None, 9, None], pa.int32()))

    assert chosen.tolist()[:3] == [partition_for_key(b"a", 4, "murmur2"), 3, 9]
    assert target.choose(pa.nulls(2, pa.binary()), None).tolist() == [0, 0]


def test_micro_batches_and_writes_of_one_task_fill_every_partition_in_turn():
    """All rows without a key of such a query once went to partition 0."""
    epochs = [first_turn("query", epoch, 0) % 5 for epoch in range(5)]
    assert sorted(epochs) == [0, 1, 2, 3, 4]
    tasks = [first_turn("query", 7, task) % 5 for task in range(5)]
    assert sorted(tasks) == [0, 1, 2, 3, 4]
    assert {first_turn(f"spark-batch-{n}", 0, 0) % 5 for n in range(50)} == {0, 1, 2, 3, 4}
