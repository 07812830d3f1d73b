"""Delayed messages: list, show, cancel, put off, deliver now; and recurring ones: create, list, delete."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from goqueue.delay.due.wheel import TICK_MS
from goqueue.delay.recurring.schedules import Described, NewSchedule
from goqueue.delay.values import DUE_MS_MAX, Delayed, SlotId
from goqueue.errors import InvalidRequest
from goqueue.records import Record
from goqueue.servers.http.bodies.message_json import message_of, record_of
from goqueue.servers.http.bodies.times import due_of, format_remaining, format_time, parse_time_ms
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.common import MessageIn
from goqueue.servers.http.types.delays import (
    Cancelled,
    CreateSchedule,
    DelayCounts,
    DelayedList,
    DelayedMessage,
    DelayedQuery,
    DelayedRow,
    DeletedSchedule,
    Reschedule,
    ScheduleList,
    ScheduleRow,
    TopicDelayCounts,
    WheelCounts,
)
from goqueue.servers.services import Services

_NUMBER_MAX = 2**63 - 1


async def list_delayed(services: Services, call: Call) -> DelayedList:
    """List a topic's delayed messages."""
    topic, query = call.path["topic"], call.query
    before_ms = DUE_MS_MAX + 1 if query.due_before is None else parse_time_ms(query.due_before, "due_before")
    found = await services.delay.list(topic, limit=query.limit, skip=query.skip, due_before_ms=before_ms)
    rows = [DelayedRow(**_row(services, one)) for one in found]
    return DelayedList(topic=topic, messages=rows, count=len(rows), limit=query.limit, skip=query.skip)


async def show(services: Services, call: Call) -> DelayedMessage:
    """Show one delayed message."""
    found = await services.delay.get(call.path["topic"], _slot_id(call))
    slot = found.slot
    record = Record(found.delayed.id.offset, slot.created_ms, slot.key, slot.value, slot.headers)
    shown = message_of(slot.topic, found.delayed.id.partition, record)
    return DelayedMessage(
        **_row(services, found.delayed),
        key=shown.key,
        value=shown.value,
        scheduled_at=format_time(slot.created_ms),
        priority=shown.priority,
        headers=shown.headers,
        headers_list=shown.headers_list,
        encoding=shown.encoding,
        target_partition=None if slot.partition < 0 else slot.partition,
        reason=slot.reason or None,
        schedule=slot.schedule or None,
    )


async def cancel(services: Services, call: Call) -> Cancelled:
    """Cancel a delayed message."""
    topic, at = call.path["topic"], _slot_id(call)
    await services.delay.cancel(topic, at)
    return Cancelled(canceled=True, topic=topic, slot=str(at))


async def reschedule(services: Services, call: Call) -> DelayedRow:
    """Deliver a message at another time."""
    due_ms = due_of(call.body.delay, call.body.deliverAt, services.clock.now_ms())
    if due_ms is None:
        raise InvalidRequest(
            "the body has neither delay nor deliverAt", field="deliverAt", hint="send a delay or a deliverAt"
        )
    moved = await services.delay.reschedule(call.path["topic"], _slot_id(call), due_ms)
    return DelayedRow(**_row(services, moved))


async def deliver_now(services: Services, call: Call) -> DelayedRow:
    """Deliver a message without waiting any longer."""
    return DelayedRow(**_row(services, await services.delay.deliver_now(call.path["topic"], _slot_id(call))))


async def stats(services: Services, call: Call) -> DelayCounts:  # noqa: ARG001
    """Count delayed messages."""
    found = services.delay.stats()
    names = sorted({*found.pending, *found.expired, *found.scheduled, *found.delivered, *found.cancelled})
    by_topic = {
        name: TopicDelayCounts(
            pending=found.pending.get(name, 0),
            expired=found.expired.get(name, 0),
            scheduled=found.scheduled.get(name, 0),
            delivered=found.delivered.get(name, 0),
            canceled=found.cancelled.get(name, 0),
        )
        for name in names
    }
    delivered = sum(found.delivered.values())
    wheels = found.wheels
    return DelayCounts(
        total_scheduled=sum(found.scheduled.values()),
        total_delivered=delivered,
        total_canceled=sum(found.cancelled.values()),
        total_expired=sum(found.expired_since.values()),
        total_pending=sum(found.pending.values()),
        pending_expired=sum(found.expired.values()),
        late_ms_max=found.late_ms_max,
        late_ms_average=round(found.late_ms_total / delivered, 3) if delivered else 0.0,
        schedules=found.schedules,
        by_topic=by_topic,
        timer_wheel=WheelCounts(
            current_active=sum(one.active for one in wheels),
            current_tick=max((one.current_tick for one in wheels), default=services.clock.now_ms() // TICK_MS),
            tick_ms=TICK_MS,
            active_by_level=[sum(one.active_by_level[level] for one in wheels) for level in range(4)],
            total_scheduled=sum(one.added_total for one in wheels),
            total_fired=sum(one.fired_total for one in wheels),
            total_canceled=sum(one.cancelled_total for one in wheels),
            total_cascaded=sum(one.cascaded_total for one in wheels),
        ),
    )


async def create_schedule(services: Services, call: Call) -> Answer:
    """Create a recurring message."""
    body = call.body
    if body.value is UNSET:
        raise InvalidRequest("the schedule has no value", field="value", hint='send {"value": ...}')
    message = MessageIn(value=body.value, key=body.key, headers=body.headers, encoding=body.encoding)
    new = NewSchedule(body.name, body.cron, body.timezone, body.topic, record_of(message), body.partition, body.missed)
    return Answer(201, _schedule(await services.schedules.create(new)))


async def list_schedules(services: Services, call: Call) -> ScheduleList:  # noqa: ARG001
    """List recurring messages."""
    rows = [_schedule(one) for one in await services.schedules.list()]
    return ScheduleList(schedules=rows, count=len(rows))


async def show_schedule(services: Services, call: Call) -> ScheduleRow:
    """Show a recurring message."""
    return _schedule(await services.schedules.get(call.path["name"]))


async def delete_schedule(services: Services, call: Call) -> DeletedSchedule:
    """Delete a recurring message."""
    await services.schedules.delete(call.path["name"])
    return DeletedSchedule(deleted=True, name=call.path["name"])


def _slot_id(call: Call) -> SlotId:
    return SlotId(_number(call, "slot_partition"), _number(call, "slot_offset"))


def _number(call: Call, name: str) -> int:
    text = call.path[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _NUMBER_MAX):
        raise InvalidRequest(f"{name} {text[:40]!r} is not an integer of 0 or more", field=name)
    return int(text)


def _row(services: Services, one: Delayed) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "slot": str(one.id),
        "deliver_at": format_time(one.due_ms),
        "time_remaining": format_remaining(one.due_ms - services.clock.now_ms()),
        "state": one.state.name.lower(),
    }


def _schedule(one: Described) -> ScheduleRow:
    schedule = one.schedule
    shown = message_of(schedule.topic, 0, Record(0, 0, schedule.key, schedule.value, schedule.headers))
    return ScheduleRow(
        name=one.name,
        cron=schedule.cron,
        timezone=schedule.timezone,
        topic=schedule.topic,
        missed=schedule.missed,
        next_runs=[format_time(ms) for ms in one.next_runs_ms],
        runs=schedule.runs,
        last_run=None if schedule.last_due_ms < 0 else format_time(schedule.last_due_ms),
        next_slot=None if one.next_slot is None else str(one.next_slot),
        key=shown.key,
        value=shown.value,
        headers=shown.headers,
        encoding=shown.encoding,
    )


# A slot is written as `2/17`, so that it fits into the path as it is.
_SLOT = "/topics/{topic}/delayed/{slot_partition}/{slot_offset}"

ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/delayed",
        list_delayed,
        "List delayed messages",
        {200: DelayedList},
        query=DelayedQuery,
        errors=(400, 404, 500, 503),
    ),
    Route("GET", _SLOT, show, "Show a delayed message", {200: DelayedMessage}, errors=(400, 404, 500, 503)),
    Route("DELETE", _SLOT, cancel, "Cancel a delayed message", {200: Cancelled}, errors=(400, 404, 409, 500, 503, 507)),
    Route(
        "PATCH",
        _SLOT,
        reschedule,
        "Deliver a delayed message at another time",
        {200: DelayedRow},
        body=Reschedule,
        errors=(400, 404, 409, 500, 503, 507),
    ),
    Route(
        "POST",
        _SLOT + "/now",
        deliver_now,
        "Deliver a delayed message now",
        {200: DelayedRow},
        errors=(400, 404, 409, 500, 503, 507),
    ),
    Route("GET", "/delay/stats", stats, "Count delayed messages", {200: DelayCounts}, errors=(503,)),
    Route(
        "POST",
        "/schedules",
        create_schedule,
        "Create a recurring message",
        {201: ScheduleRow},
        body=CreateSchedule,
        errors=(400, 403, 404, 409, 413, 429, 500, 503, 507),
    ),
    Route("GET", "/schedules", list_schedules, "List recurring messages", {200: ScheduleList}, errors=(500, 503)),
    Route(
        "GET",
        "/schedules/{name}",
        show_schedule,
        "Show a recurring message",
        {200: ScheduleRow},
        errors=(404, 500, 503),
    ),
    Route(
        "DELETE",
        "/schedules/{name}",
        delete_schedule,
        "Delete a recurring message",
        {200: DeletedSchedule},
        errors=(404, 500, 503, 507),
    ),
)
