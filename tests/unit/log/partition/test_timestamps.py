"""From time to offset, whatever clocks the producers have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records

# -1 is "no timestamp"; the whole batch without one has the time of its append.
BATCHES = st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=4), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(batches=BATCHES, start=st.integers(0, 5), cut=st.integers(0, 100))
def test_a_search_by_time_finds_what_a_walk_over_all_records_finds(make_desk, batches, start, cut):
    desk = make_desk()
    for stamps in batches:
        desk.append(*(b"x" * 40 for _ in stamps), stamps=stamps)
    desk.log.delete_before(min(start, desk.log.end_offset))
    upper = max(desk.log.end_offset - cut, 0)
    if cut % 2:
        desk.restart()
    elif cut % 3:
        desk.kill()
    records = [
        (record.offset, record.timestamp_ms if header.max_timestamp_ms > 0 else desk.now_ms, 0)
        for batch in desk.read()
        if (header := parse_batch_header(batch)).last_offset < upper
        for record in decode_records(batch)
        if desk.log.start_offset <= record.offset
    ]
    for wanted in range(0, 62, 5):
        found = desk.log.offset_for_timestamp(wanted, upper=upper)
        assert found == next((record for record in records if record[1] >= wanted), None)
    newest = max(records, key=lambda record: (record[1], -record[0]), default=None)
    assert desk.log.offset_of_max_timestamp(upper) == newest


def test_the_leader_epoch_of_the_record_is_told(desk):
    desk.append(b"a", stamps=[10], epoch=3)
    desk.append(b"b", stamps=[20], epoch=4)
    assert desk.log.offset_for_timestamp(15, upper=2) == (1, 20, 4)


def test_an_empty_log_has_no_time(desk):
    assert desk.log.offset_for_timestamp(0, upper=0) is None
    assert desk.log.offset_of_max_timestamp(0) is None


def test_only_segments_that_can_hold_the_time_are_opened(desk):
    for stamp in range(0, 60, 3):
        desk.append(b"x" * 300, stamps=[stamp])
    desk.log.offset_for_timestamp(0, upper=20)  # every time index has been looked at once
    opened = desk.files.faults.counts["pread"]
    desk.log.offset_for_timestamp(58, upper=20)
    assert desk.files.faults.counts["pread"] - opened <= 4
