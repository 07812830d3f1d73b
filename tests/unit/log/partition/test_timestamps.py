"""From time to offset, whatever clocks the producers have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records

HERE = "logs/orders/0"
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


def test_a_flipped_bit_in_a_time_index_hides_nothing_and_ages_nothing(make_desk):
    """Believed, it would hide records from a search, and let retention delete a segment that is young."""

    def filled():
        desk = make_desk()
        for stamp in range(900_000, 900_040):
            desk.append(b"x" * 60, stamps=[stamp])
        # A start reads every index anew, as on a node that comes back.
        desk.log.close()
        return desk

    whole = filled()
    sizes = {path: whole.files.size(f"{HERE}/{path}") for path in whole.files.list(HERE) if path.endswith(".timeindex")}
    whole.reopen()
    expected = [whole.log.offset_for_timestamp(wanted, upper=40) for wanted in range(899_998, 900_042)]
    bits = [(path, bit) for path, size in sizes.items() for bit in range(8 * size)]
    assert len(bits) > 500
    for path, bit in bits[::23]:
        desk = filled()
        desk.files.flip_bit(f"{HERE}/{path}", bit // 8, bit % 8)
        desk.reopen(retention_ms=200_000)
        found = [desk.log.offset_for_timestamp(wanted, upper=40) for wanted in range(899_998, 900_042)]
        assert found == expected, f"bit {bit} of {path}"
        assert desk.log.apply_retention(1_000_000) == 0, f"bit {bit} of {path}"
