"""The runs of recurring messages: each run is a slot, and storing its fire stores the next run with it."""

from __future__ import annotations

import msgspec

from goqueue.delay.holding.records import Schedule, ScheduleKey, Slot, SlotKey
from goqueue.delay.holding.store import Pair
from goqueue.delay.recurring.occurrences import after_run_ms, is_missed, next_run_ms

NO_SLOT = -1


def first_pairs(name: str, schedule: Schedule, topic_id: bytes, now_ms: int, slot: int) -> list[Pair]:
    """What is stored for a new recurring message: its first run, at offset `slot`, and itself."""
    return _pairs(name, schedule, topic_id, now_ms, now_ms, slot)


def following_pairs(name: str, schedule: Schedule, run: Slot, now_ms: int, slot: int) -> list[Pair]:
    """What is stored together with the fire of a run: the run after it, at offset `slot`."""
    after_ms = after_run_ms(schedule.missed, run.due_ms, now_ms)
    done = msgspec.structs.replace(
        schedule,
        last_due_ms=run.due_ms,
        runs=schedule.runs + (not is_skipped(schedule, run, now_ms)),
    )
    return _pairs(name, done, run.topic_id, after_ms, now_ms, slot)


def is_skipped(schedule: Schedule, run: Slot, now_ms: int) -> bool:
    """Whether this run was missed and is not to be made up for."""
    return schedule.missed == "skip" and is_missed(run.due_ms, now_ms)


def _pairs(name: str, schedule: Schedule, topic_id: bytes, after_ms: int, now_ms: int, slot: int) -> list[Pair]:
    due_ms = next_run_ms(schedule.cron, schedule.timezone, after_ms)
    if due_ms is None:
        return [(ScheduleKey(name), msgspec.structs.replace(schedule, next_slot=NO_SLOT, next_due_ms=-1))]
    run = Slot(
        due_ms,
        schedule.topic,
        topic_id,
        schedule.partition,
        schedule.key,
        schedule.value,
        schedule.headers,
        now_ms,
        schedule=name,
    )
    return [
        (SlotKey(slot), run),
        (ScheduleKey(name), msgspec.structs.replace(schedule, next_slot=slot, next_due_ms=due_ms)),
    ]
