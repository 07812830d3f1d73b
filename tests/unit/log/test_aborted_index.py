"""Aborted transactions: what a committed reader must not see, found again after a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import Flags, encode_frame_header
from goqueue.codec.frame_walk import walk_frames
from goqueue.codec.markers import encode_marker
from goqueue.errors import DamagedIndex
from goqueue.log.index.aborted_index import AbortedIndex, search_file
from goqueue.log.state.producer_state import ProducerState
from goqueue.records import AbortedTransaction, NewRecord
from goqueue.testing.memory_files import MemoryFiles

THREE = [
    AbortedTransaction(1, 10, 19, 15),
    AbortedTransaction(2, 15, 25, 26),
    AbortedTransaction(1, 30, 40, 41),
]


def stored(index):
    """The index as the file of a sealed segment."""
    files = MemoryFiles()
    file = files.open("0.txnindex", create=True)
    file.append([index.encode()])
    return file


@pytest.mark.parametrize(
    ("first", "upper", "found", "complete"),
    [
        (0, 10, [], True),
        (0, 11, [0], True),
        (19, 21, [0, 1], True),
        (20, 26, [1], True),
        (26, 30, [], True),
        (26, 31, [2], True),
        (0, 41, [0, 1, 2], True),
        (0, 42, [0, 1, 2], False),  # a later segment may hold a marker for offset 41
        (41, 50, [], False),
    ],
)
def test_a_range_finds_the_transactions_that_touch_it_in_memory_and_on_disk(first, upper, found, complete):
    index = AbortedIndex(THREE)
    expected = ([THREE[i] for i in found], complete)
    assert index.overlapping(first, upper) == expected
    assert search_file(stored(index), first, upper, where="t") == expected


def test_an_empty_index_is_a_file_too_and_finds_nothing():
    index = AbortedIndex()
    assert index.overlapping(0, 100) == ([], False)
    assert search_file(stored(index), 0, 100, where="t") == ([], False)
    assert len(AbortedIndex.decode(index.encode())) == 0


def test_cutting_the_log_forgets_the_markers_behind_the_cut():
    index = AbortedIndex(THREE)
    index.truncate(40)
    assert index.entries() == THREE[:2]
    index.truncate(26)
    assert index.entries() == THREE[:2]
    index.truncate(25)
    assert index.entries() == THREE[:1]


def test_every_bit_flip_and_every_cut_is_noticed():
    data = AbortedIndex(THREE[:2]).encode()
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedIndex):
            AbortedIndex.decode(damaged)
    for size in range(len(data)):
        with pytest.raises(DamagedIndex):
            AbortedIndex.decode(data[:size])


def test_a_search_on_disk_notices_damage_in_what_it_reads():
    files = MemoryFiles()
    file = files.open("0.txnindex", create=True)
    file.append([AbortedIndex(THREE).encode()])
    files.flip_bit("0.txnindex", 14 + 36 + 3)
    with pytest.raises(DamagedIndex, match=r"0\.txnindex"):
        search_file(file, 0, 100, where="0.txnindex")


def test_a_long_index_is_read_in_pieces():
    entries = [AbortedTransaction(7, 10 * i, 10 * i + 5, 10 * i + 6) for i in range(3000)]
    file = stored(AbortedIndex(entries))
    assert search_file(file, 10_000, 20_000, where="t") == (entries[1000:2000], True)
    assert search_file(file, 0, 10**9, where="t") == (entries, False)


def frame(batch, offset, *, flags=0):
    body = offset.to_bytes(8, "big") + batch[8:]
    return encode_frame_header([body], flags=flags, offset=offset, timestamp_ns=10**6, priority=2) + body


def test_it_is_built_again_from_frames_and_the_producers_of_that_moment():
    """The second transaction began in the segment before: only the producers know where."""
    producers = ProducerState()
    earlier = encode_batch(
        [NewRecord(b"k", b"v")], producer_id=2, producer_epoch=0, base_sequence=0, transactional=True, now_ms=1
    )
    producers.apply(parse_batch_header(earlier), 90, commit=None, now_ms=1)
    one = encode_batch(
        [NewRecord(b"k", b"v")] * 3, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True, now_ms=1
    )
    control = Flags.CONTROL | Flags.TRANSACTIONAL
    markers = {
        producer: encode_marker(False, producer_id=producer, producer_epoch=0, coordinator_epoch=0, now_ms=1)
        for producer in (1, 2)
    }
    commit = encode_marker(True, producer_id=3, producer_epoch=0, coordinator_epoch=0, now_ms=1)
    data = b"".join(
        [
            frame(one, 100, flags=Flags.TRANSACTIONAL),
            frame(commit, 103, flags=control | Flags.COMMIT),
            frame(markers[1], 104, flags=control),
            frame(markers[2], 105, flags=control),
        ]
    )
    frames = [(found.header, memoryview(data)[found.position : found.end]) for found in walk_frames(data)]

    index = AbortedIndex.rebuild(frames, producers)

    assert index.entries() == [AbortedTransaction(1, 100, 104, 90), AbortedTransaction(2, 90, 105, 106)]
    assert producers.first_open_offset() is None


@given(
    spans=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), max_size=40),
    first=st.integers(0, 120),
    length=st.integers(0, 60),
)
def test_searching_agrees_with_looking_at_every_entry(spans, first, length):
    bounds, last = [], 0
    for gap, back in spans:
        last += gap
        bounds.append((max(0, last - back), last))
    entries = [
        # Stable at that moment: where the oldest of the transactions still open had begun.
        AbortedTransaction(i, begin, end, min([end + 1, *(b for b, _ in bounds[i + 1 :])]))
        for i, (begin, end) in enumerate(bounds)
    ]
    upper = first + length
    wanted = [e for e in entries if e.first_offset < upper and e.last_offset >= first]
    index = AbortedIndex(entries)
    assert index.overlapping(first, upper).aborted == wanted
    assert search_file(stored(index), first, upper, where="t") == index.overlapping(first, upper)
    assert AbortedIndex.decode(index.encode()).entries() == entries
