"""Schedules of an app: created and changed by name, so that many workers may start at the same time.

The broker has them as `{app}.{task}`, with a header that names the app as the owner. Deleting is only done on request:
a worker of an older release that is still running must not lose what it needs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from goqueue.client import Client, NotFound, RequestRefused
from goqueue.worker.task import NAME

if TYPE_CHECKING:
    from goqueue.worker.app import Every, Worker

_OWNER = "task-schedule-of"
# Another worker that starts may create or delete the same schedule between two of our requests.
_ATTEMPTS_MAX = 10
_VALUE = "{}"
_log = logging.getLogger("goqueue.worker")


async def upsert_schedules(client: Client, app: Worker, *, prune: bool = False) -> list[str]:
    """Make the broker's schedules of this app what its decorators say; returns those that no decorator names."""
    for every in app.schedules.values():
        await _upsert(client, app, every)
    rows = await client.schedules.list()
    left = sorted(row["name"] for row in rows if _owner(row) == app.name and row["name"] not in app.schedules)
    for name in left:
        if prune:
            await _delete(client, name)
            _log.info("schedule %s was deleted: no decorator names it", name)
        else:
            _log.warning("schedule %s has no @app.every any more and keeps running: --prune-schedules deletes it", name)
    return left


async def _upsert(client: Client, app: Worker, every: Every) -> None:
    for _ in range(_ATTEMPTS_MAX):
        found = await _find(client, every.name)
        if found is not None and _is_same(found, app, every):
            return
        if found is not None:
            await _delete(client, every.name)
        try:
            await client.schedules.create(
                every.name,
                every.cron,
                every.task.settings.queue,
                _VALUE,
                timezone=every.timezone,
                missed=every.missed,
                headers=_headers(app, every),
            )
        except RequestRefused as refused:
            if refused.code != "schedule_exists":
                raise
        else:
            _log.info("schedule %s was %s: %s", every.name, "created" if found is None else "changed", every.cron)
            return
    _log.warning("schedule %s is being changed by other processes and was not updated", every.name)


async def _find(client: Client, name: str) -> dict[str, Any] | None:
    try:
        return await client.schedules.get(name)
    except NotFound:
        return None


async def _delete(client: Client, name: str) -> None:
    try:
        await client.schedules.delete(name)
    except NotFound:
        return


def _is_same(row: dict[str, Any], app: Worker, every: Every) -> bool:
    found = (row["cron"], row["timezone"], row["topic"], row["missed"], row.get("headers"))
    wanted = (every.cron, every.timezone, every.task.settings.queue, every.missed, _headers(app, every))
    return found == wanted


def _headers(app: Worker, every: Every) -> dict[str, str | None]:
    return {NAME: every.task.name, _OWNER: app.name}


def _owner(row: dict[str, Any]) -> str | None:
    owner: str | None = (row.get("headers") or {}).get(_OWNER)
    return owner
