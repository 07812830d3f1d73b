"""The live page of a pipeline: plain HTML and SVG that renews itself, without a script.

A run writes its state to the topic `pipelines.status` (see `goqueue.pipeline.declared.running.live`); its lag in
messages and seconds is the lag of its groups. Whoever may write to that topic decides what stands on the page: texts
are escaped, numbers are numbers, and the drawing is shown as an image, in which no script runs.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from goqueue.broker.reading.queries import LATEST
from goqueue.errors import InvalidRequest, NotFound, TopicNotFound
from goqueue.records import Isolation, TopicPartition
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.pipelines import PipelineRow, PipelineSink, list_pipelines
from goqueue.servers.services import Services

TOPIC = "pipelines.status"
# Runs tell at most every two seconds: this many records hold the newest of some hundred runs.
_RECORDS_MAX, _BYTES_MAX = 500, 16 * 1024 * 1024
_STALE_MS = 15_000
# Among the counts of a step's rules: how many rows there were.
_ROWS = "rows"
_WIDTH, _HEIGHT = 260, 60
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:1.5rem auto;padding:0 1rem;color:#0f172a}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.25rem .8rem;border-bottom:1px solid #e2e8f0;
text-align:left}td.n{text-align:right;font-variant-numeric:tabular-nums}img{max-width:100%}.bad{color:#b91c1c}
.charts{display:flex;flex-wrap:wrap;gap:1.5rem}figure{margin:0}figcaption{font-size:13px;color:#475569}
"""


class SinkStatus(msgspec.Struct, kw_only=True):
    """One query of a run."""

    sink: str
    active: bool = False
    batch: int = -1
    rows_per_second: float = 0.0
    rows_written: int = 0
    batch_ms: int = 0
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    restarts: int = 0
    last_error: str | None = None
    expectations: dict[str, dict[str, int]] = {}
    # batch, its milliseconds, rows a second, lag
    points: list[tuple[float, float, float, float]] = []


class RunStatus(msgspec.Struct, kw_only=True):
    """What a run tells of itself."""

    name: str
    state: str
    told_ms: int
    error: str | None = None
    # SVG in base64
    picture: str = msgspec.field(default="")
    sinks: list[SinkStatus] = []


async def live_page(services: Services, call: Call) -> web.Response:
    """How a pipeline fares, as a page."""
    name = call.path["name"]
    status = await _status(services, name)
    rows = (await list_pipelines(services, call)).pipelines
    lags = next((row for row in rows if row.name == name), None)
    if status is None and lags is None:
        raise NotFound(f"no pipeline {name!r} has told how it fares: run it with `goqueue pipeline run`")
    text = page(name, status, lags, services.clock.now_ms())
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": _POLICY}
    return web.Response(text=text, content_type="text/html", headers=headers)


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


async def _status(services: Services, name: str) -> RunStatus | None:
    """The newest state of a run that the topic has."""
    place = TopicPartition(TOPIC, 0)
    try:
        end = await services.partitions.offset_at(place, LATEST, Isolation.READ_COMMITTED)
    except TopicNotFound:
        return None
    found = None
    at = max((end.offset if end is not None else 0) - _RECORDS_MAX, 0)
    while end is not None and at < end.offset:
        read = (
            await services.reads.read(
                {place: at}, limit=_RECORDS_MAX, max_bytes=_BYTES_MAX, wait_ms=0, isolation=Isolation.READ_COMMITTED
            )
        )[place]
        if read.error is not None:
            raise read.error
        found = next((one.value for one in reversed(read.records) if one.key == name.encode()), found)
        if read.next_offset <= at:
            break
        at = read.next_offset
    if not found:
        return None
    try:
        return msgspec.json.decode(bytes(found), type=RunStatus)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"the last state of pipeline {name!r} in {TOPIC} is not readable: {error}") from None


def page(name: str, status: RunStatus | None, lags: PipelineRow | None, now_ms: int) -> str:
    """The page itself."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>",
        f"<title>{html.escape(name)}</title><style>{_STYLE}</style><h1>{html.escape(name)}</h1>",
    ]
    if status is None:
        parts.append("<p>No run has told how it fares; below is what its groups have read.</p>")
    else:
        parts += _of_run(status, now_ms)
    if lags is not None:
        parts.append("<h2>Lag</h2>")
        parts.append(_table([_lag_row(one) for one in lags.sinks]))
    return "\n".join([*parts, "</html>"])


def _of_run(status: RunStatus, now_ms: int) -> Iterator[str]:
    is_stale = status.state == "running" and now_ms - status.told_ms > _STALE_MS
    seconds = max(now_ms - status.told_ms, 0) / 1000
    told = f"{status.state}, told {seconds:.0f} s ago"
    yield f"<p class='{'bad' if is_stale or status.error else ''}' id=state>{html.escape(told)}</p>"
    if status.error:
        yield f"<p class=bad>{html.escape(status.error)}</p>"
    yield f"<img alt='the pipeline' src='data:image/svg+xml;base64,{html.escape(status.picture, quote=True)}'>"
    yield "<h2>Queries</h2>"
    yield _table([_query_row(one, status.told_ms) for one in status.sinks])
    for one in status.sinks:
        yield f"<h3>{html.escape(one.sink)}</h3>"
        if one.last_error:
            yield f"<p class=bad>{html.escape(one.last_error)}</p>"
        yield "<div class=charts>"
        for at, title in ((1, "batch, ms"), (2, "rows a second"), (3, "lag, messages")):
            yield _chart(title, [point[at] for point in one.points])
        yield "</div>"
        if one.expectations:
            yield _table(
                [
                    {"step": step, "rule": rule, "rows": counts.get(_ROWS, 0), "rows that broke it": count}
                    for step, counts in one.expectations.items()
                    for rule, count in counts.items()
                    if rule != _ROWS
                ]
            )


def _lag_row(one: PipelineSink) -> dict[str, Any]:
    seconds = round(one.lag_seconds, 1)
    return {"sink": one.sink, "topics": ", ".join(one.topics), "messages": one.lag, "seconds": seconds}


def _behind(watermark: str | None, told_ms: int) -> float | str:
    """How many seconds a watermark was behind the clock when the run told it."""
    try:
        at = dt.datetime.fromisoformat(watermark or "")
    except ValueError:
        return ""
    seconds = told_ms / 1000 - at.replace(tzinfo=at.tzinfo or dt.UTC).timestamp()
    # Spark's watermark is the year 1970 until it has seen a row.
    return "" if at.year < 1971 else round(seconds, 1)


def _query_row(one: SinkStatus, told_ms: int) -> dict[str, Any]:
    return {
        "query": one.sink,
        "active": "yes" if one.active else "no",
        "batch": one.batch,
        "rows a second": round(one.rows_per_second, 1),
        "rows written": one.rows_written,
        "batch, ms": one.batch_ms,
        "watermark": one.watermark or "",
        "watermark, s behind": _behind(one.watermark, told_ms),
        "state, rows": one.state_rows,
        "state, bytes": one.state_bytes,
        "restarts": one.restarts,
    }


def _chart(title: str, values: Sequence[float]) -> str:
    """A line of the last batches, with its lowest and highest value."""
    if not values:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1
    step = _WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{at * step:.1f},{_HEIGHT - (value - low) / span * (_HEIGHT - 6) - 3:.1f}" for at, value in enumerate(values)
    )
    return (
        f"<figure><svg width={_WIDTH} height={_HEIGHT} role=img><polyline points='{points}' fill='none' "
        f"stroke='#2563eb' stroke-width='1.5'/></svg><figcaption>{html.escape(title)}: {values[-1]:,.0f} "
        f"({low:,.0f} to {high:,.0f})</figcaption></figure>"
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>nothing yet</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(map(_cell, row.values())) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f"<td class=n>{value:,}</td>"
    return f"<td>{html.escape(str(value))}</td>"


_SUMMARY = "A pipeline, live, to look at"
ROUTES = (Route("GET", "/pipelines/{name}/live", live_page, _SUMMARY, {200: "text/html"}, errors=(400, 404)),)
