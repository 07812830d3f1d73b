"""A segment that is written anew from another replica, while the log goes on being used."""

from __future__ import annotations

import pytest
from tests.unit.log.test_repair import a_log, logs_of, offsets_read, opened

from goqueue.errors import StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.log.repair.segment_repair import Hole, SegmentRepair


def a_fetched_repair_of_a_missing_segment(lost_number: int) -> tuple[PartitionLog, SegmentRepair]:
    files, sound = a_log(), opened(a_log())
    files.remove(logs_of(files)[lost_number])
    files.sync_all()
    log = opened(files)
    (repair,) = log.begin_repairs()
    hole = Hole(repair.base_offset, repair.end_offset)
    assert repair.look() == [hole]
    repair.begin()
    repair.take(b"".join(sound.read_frames(hole[0], max_bytes=1 << 20, upper=hole[1]).batches), hole)
    repair.close()
    return log, repair


def test_a_missing_segment_is_put_in_place() -> None:
    log, repair = a_fetched_repair_of_a_missing_segment(1)
    repair.put_in_place(with_producers=True)
    assert log.damage == ()
    assert offsets_read(log) == list(range(480))


def test_a_missing_segment_that_the_log_was_cut_before_is_not_put_behind_its_end() -> None:
    """It was the last one then: what came next was written into it, at offsets before its first."""
    log, repair = a_fetched_repair_of_a_missing_segment(1)
    log.truncate_to(30)
    end = log.end_offset
    assert end < repair.base_offset
    with pytest.raises(StorageError, match="begins anew"):
        repair.put_in_place(with_producers=True)
    assert offsets_read(log) == list(range(end))
    assert log.segments[-1].base_offset < end
    assert not log.poisoned
