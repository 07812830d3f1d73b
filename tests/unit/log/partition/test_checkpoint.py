"""The checkpoint: every field comes back, every damaged byte is noticed."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DamagedIndex
from goqueue.log.state.checkpoint import Checkpoint, LogPoint, read_checkpoint, write_checkpoint
from goqueue.testing.memory_files import MemoryFiles

OFFSETS = st.integers(0, 2**63 - 1)
POINTS = st.builds(LogPoint, OFFSETS, OFFSETS, OFFSETS)
CHECKPOINTS = st.builds(
    Checkpoint,
    topic_id=st.uuids(),
    start_offset=OFFSETS,
    recovery=POINTS,
    high_watermark=OFFSETS,
    is_clean=st.booleans(),
    end=POINTS,
    is_cut=st.booleans(),
    index_entries=st.integers(0, 2**32 - 1),
    time_entries=st.integers(0, 2**32 - 1),
    max_timestamp_ms=st.integers(-1, 2**63 - 1),
    epochs=st.lists(st.tuples(st.integers(0, 2**31 - 1), OFFSETS), max_size=5).map(tuple),
    producers=st.binary(max_size=50),
    lanes=st.binary(max_size=50),
    aborted=st.binary(max_size=50),
)
SMALL = Checkpoint(UUID(int=1), 5, LogPoint(9, 8, 7), 9, True, LogPoint(9, 8, 7), epochs=((0, 0), (3, 5)), lanes=b"xyz")


@given(CHECKPOINTS)
def test_a_checkpoint_comes_back_as_it_was(checkpoint):
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint


def test_every_flipped_bit_is_noticed():
    data = SMALL.encode()
    for position in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[position] ^= 1 << bit
            with pytest.raises(DamagedIndex):
                Checkpoint.decode(bytes(broken))


def test_every_shortened_checkpoint_is_noticed():
    data = SMALL.encode()
    for size in range(len(data)):
        with pytest.raises(DamagedIndex):
            Checkpoint.decode(data[:size])


def test_it_is_replaced_as_a_whole_and_a_missing_one_is_none():
    files = MemoryFiles()
    files.make_dirs("logs/t/0")
    assert read_checkpoint(files, "logs/t/0") is None
    write_checkpoint(files, "logs/t/0", SMALL)
    assert read_checkpoint(files.crash(), "logs/t/0") == SMALL
