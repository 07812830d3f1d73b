"""Producers that are idle for long are forgotten, in memory and on the disk; a stop is no idleness."""

from __future__ import annotations

from goqueue.log.removal import PRODUCER_GRACE_MS

HOUR_MS = 3_600_000


def pass_ms(desk, ms):
    desk.now_ms += ms
    desk.log.apply_retention(desk.now_ms)


def known(desk):
    return sorted(one.producer_id for one in desk.log.producers.all())


def write_as(desk, producer_id, sequence=0):
    return desk.append(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_an_idle_producer_is_forgotten_and_one_at_work_is_not(desk):
    desk.reopen(producer_expiry_ms=HOUR_MS)
    write_as(desk, 1)
    write_as(desk, 2)
    pass_ms(desk, HOUR_MS - 1)
    write_as(desk, 2, sequence=1)
    assert known(desk) == [1, 2]
    pass_ms(desk, 1)
    assert known(desk) == [2]


def test_what_is_forgotten_is_in_no_later_checkpoint_or_snapshot(desk):
    desk.reopen(producer_expiry_ms=HOUR_MS)
    for producer_id in range(1000):
        write_as(desk, producer_id)
    desk.log.checkpoint()
    full = len(desk.log.producers.all())
    full_bytes = desk.files.size(f"{desk.log.directory}/partition.ckpt")
    pass_ms(desk, HOUR_MS)
    write_as(desk, 5000)
    desk.log.checkpoint()
    assert (full, known(desk)) == (1000, [5000])
    assert desk.files.size(f"{desk.log.directory}/partition.ckpt") < full_bytes / 20
    desk.restart()
    assert known(desk) == [5000]


def test_a_retry_after_a_stop_of_any_length_is_recognised(desk):
    desk.reopen(producer_expiry_ms=HOUR_MS)
    first = write_as(desk, 1)
    desk.log.close()
    desk.now_ms += 1000 * HOUR_MS
    desk.reopen()
    pass_ms(desk, PRODUCER_GRACE_MS - 1)
    again = write_as(desk, 1)
    assert (again.duplicate, again.base_offset) == (True, first.base_offset)
    pass_ms(desk, 1)
    assert known(desk) == []


def test_a_crash_is_no_idleness_either(desk):
    desk.reopen(producer_expiry_ms=HOUR_MS)
    write_as(desk, 1)
    desk.now_ms += 1000 * HOUR_MS
    desk.kill()
    pass_ms(desk, 0)
    assert write_as(desk, 1).duplicate
