"""Partitions for records whose producer leaves the choice to us."""

from __future__ import annotations

from collections import Counter

import pytest
from aiokafka.partitioner import murmur2 as other
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.client.producing.partitioning import Partitioner
from goqueue.partitioner import RoundRobin, murmur2, partition_for_key


@pytest.mark.parametrize("partitions", [1, 2, 3, 6, 7])
def test_records_without_a_key_are_spread_evenly(partitions: int) -> None:
    """A counter bumped twice per record left half of the partitions empty."""
    turns = RoundRobin()
    taken = Counter(turns.take(partitions) for _ in range(600 * partitions))
    assert taken == dict.fromkeys(range(partitions), 600)


def test_turns_go_on_when_partitions_are_added() -> None:
    turns = RoundRobin()
    assert [turns.take(2) for _ in range(3)] == [0, 1, 0]
    assert [turns.take(4) for _ in range(4)] == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # The vectors of Kafka's own UtilsTest.testMurmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32
    assert partition_for_key(key, 7, "murmur2") == (expected & 0x7FFFFFFF) % 7


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_murmur2_agrees_with_an_independent_client(key: bytes) -> None:
    assert murmur2(key) == other(key) % 2**32


@pytest.mark.parametrize("algorithm", ["murmur3", "murmur2"])
def test_keys_are_spread_over_all_partitions(algorithm: str) -> None:
    taken = Counter(partition_for_key(b"key-%d" % number, 6, algorithm) for number in range(6000))
    assert set(taken) == set(range(6))
    assert min(taken.values()) > 850


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(1, 1000), st.sampled_from(["murmur3", "murmur2"]))
def test_a_key_always_gets_the_same_valid_partition(key: bytes, partitions: int, algorithm: str) -> None:
    chosen = partition_for_key(key, partitions, algorithm)
    assert 0 <= chosen < partitions
    assert partition_for_key(key, partitions, algorithm) == chosen


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(1, 64), st.sampled_from(["murmur3", "murmur2"]))
def test_the_python_client_chooses_as_the_topic_says(key: bytes, partitions: int, algorithm: str) -> None:
    described = {"partitions": partitions, "config": {"goqueue.partitioner": algorithm}}
    assert Partitioner.of(described).choose(key) == partition_for_key(key, partitions, algorithm)
