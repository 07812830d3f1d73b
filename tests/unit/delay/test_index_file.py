"""A due index on a disk that changes what it stores: what a flipped bit changes is noticed when the file is opened."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

from goqueue.delay.due.index import DueIndex, Known
from goqueue.delay.holding.records import Change, Fire, FireKey, Origin, Schedule, ScheduleKey, Slot, SlotKey, SlotState

TOPIC = bytes(range(16))
SLOTS = 300
FLIPS = 120


def opened(path: Path) -> tuple[DueIndex, list[str]]:
    """The index, and why it was made anew, if it was."""
    reasons: list[str] = []
    index = DueIndex(
        str(path),
        0,
        remove=lambda one: Path(one).unlink(missing_ok=True),
        on_rebuild=lambda _, problem: reasons.append(str(problem)),
    )
    return index, reasons


def fill(index: DueIndex) -> None:
    for partition in range(2):
        known = index.register(TOPIC, partition)
        changes: list[tuple[int, Change]] = []
        for offset in range(SLOTS):
            state = SlotState.STAGED if offset % 10 == 0 else SlotState.PENDING
            origin = Origin(partition, 7, 0, offset)
            slot = Slot(
                10**12 + offset * 7919, "t", TOPIC, partition, None, b"", (), 10**12, origin=origin, state=state
            )
            changes.append((known.number, Change(offset, SlotKey(offset), slot)))
        fire = Fire((1, 2), 10**12, "t", TOPIC, partition, 9, 5)
        changes.append((known.number, Change(SLOTS, FireKey(1), fire)))
        changes.append((known.number, Change(SLOTS + 1, ScheduleKey("daily"), schedule())))
        index.apply(changes, [Known(known.number, SLOTS + 2, 3)])


def schedule() -> Schedule:
    return Schedule("0 0 * * * *", "UTC", "t", 0, None, b"tick", (), "all", 10**12, 5, 10**12)


def content(index: DueIndex) -> list[Any]:
    found: list[Any] = [index.due((0, 0), 2**62, 10_000), index.next_due_ms(0)]
    for partition in range(2):
        known = index.register(TOPIC, partition)
        rows = index.of_partition(known.number, due_before_ms=2**62, limit=10_000)
        found += [known, rows, index.facts(known.number), [index.find(row.key) for row in rows]]
    return found


def test_a_flipped_bit_is_noticed_or_means_nothing(tmp_path: Path) -> None:
    path = tmp_path / "due-0.index"
    index, _ = opened(path)
    fill(index)
    index.close()
    whole = path.read_bytes()
    index, reasons = opened(path)
    expected = content(index)
    assert not reasons
    assert len(expected[0]) == 2 * SLOTS * 9 // 10
    index.close()
    chance = random.Random(3)
    noticed = 0
    for _ in range(FLIPS):
        at = chance.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        for file in tmp_path.iterdir():
            file.unlink()
        path.write_bytes(flipped)
        index, reasons = opened(path)
        if not reasons:
            try:
                assert content(index) == expected, f"byte {at} of {len(whole)}"
            except sqlite3.DatabaseError as damage:
                reasons.append(str(damage))
        noticed += bool(reasons)
        index.close()
    assert noticed > FLIPS // 4
