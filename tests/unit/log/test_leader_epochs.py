"""Leader epochs: where a follower and its leader part ways."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log.state.leader_epochs import LeaderEpochs


def epochs(*entries):
    return LeaderEpochs.from_entries(entries)


def test_an_empty_list_knows_no_epoch():
    empty = LeaderEpochs()
    assert empty.latest == -1
    assert empty.end_offset_for(0, 100) == (-1, -1)
    assert not empty.truncate_end(0)
    assert not empty.truncate_start(0)


def test_only_the_first_batch_of_an_epoch_is_news():
    one = LeaderEpochs()
    assert one.assign(3, 10)
    assert not one.assign(3, 11)
    assert not one.assign(3, 10)
    assert one.assign(4, 20)
    assert one.entries() == [(3, 10), (4, 20)]
    assert one.latest == 4


def test_a_batch_without_an_epoch_changes_nothing():
    one = epochs((3, 10))
    assert not one.assign(-1, 50)
    assert one.entries() == [(3, 10)]


def test_entries_that_the_new_one_contradicts_are_dropped():
    one = epochs((1, 0), (2, 10), (3, 20))
    assert one.assign(4, 10)
    assert one.entries() == [(1, 0), (4, 10)]
    assert one.assign(2, 30)
    assert one.entries() == [(1, 0), (2, 30)]


def test_an_epoch_found_to_begin_earlier_is_moved():
    one = epochs((1, 0), (2, 10))
    assert one.assign(2, 7)
    assert one.entries() == [(1, 0), (2, 7)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # no epoch
        (0, (0, 10)),  # older than the list: its data is gone, begin where the list does
        (2, (2, 20)),
        (3, (2, 20)),  # never wrote here: the one before it ended there
        (4, (4, 40)),
        (6, (6, 99)),  # the current one ends with the log
        (7, (-1, -1)),  # from the future
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next_one(asked, answer):
    assert epochs((2, 10), (4, 20), (6, 40)).end_offset_for(asked, 99) == answer


def test_cutting_the_end_removes_epochs_that_began_there_or_later():
    one = epochs((2, 10), (4, 20), (6, 40))
    assert not one.truncate_end(41)
    assert one.truncate_end(20)
    assert one.entries() == [(2, 10)]
    assert one.latest == 2
    assert one.assign(3, 20)


def test_cutting_the_start_keeps_the_epoch_that_covers_it_from_there():
    one = epochs((2, 10), (4, 20), (6, 40))
    assert not one.truncate_start(9)
    assert not one.truncate_start(10)
    assert one.truncate_start(25)
    assert one.entries() == [(4, 25), (6, 40)]
    assert one.truncate_start(40)
    assert one.entries() == [(6, 40)]
    assert one.truncate_start(900)
    assert one.entries() == [(6, 900)]
    assert one.latest == 6


def test_the_entries_handed_out_are_a_copy_l26():
    one = epochs((2, 10))
    one.entries().clear()
    assert one.entries() == [(2, 10)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=30))
def test_the_list_always_rises_whatever_is_assigned(assigned):
    one = LeaderEpochs()
    for epoch, start in assigned:
        one.assign(epoch, start)
        entries = one.entries()
        assert entries == sorted(set(entries))
        assert all(a.start_offset < b.start_offset for a, b in pairwise(entries))
        # The last word is always true of the batch just seen: it lies in that epoch.
        assert one.latest == epoch
        assert entries[-1].start_offset <= start
    assert LeaderEpochs.from_entries(one.entries()).entries() == one.entries()
