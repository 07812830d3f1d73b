"""Pipelines on Spark, as the broker sees them: by the groups under which they say how far they are.

A declared pipeline reads in a group `pipeline.{name}.{sink}` for each of its sinks and commits after
every batch, so nothing is stored here that groups do not store anyway.
"""

from __future__ import annotations

from goqueue.groups.offsets.progress import PartitionProgress
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.types.common import Reply
from goqueue.servers.services import Services

_PREFIX = "pipeline."


class PipelineSink(Reply):
    """One sink: how many messages it is behind, and when its last batch was finished."""

    sink: str
    group: str
    topics: list[str]
    lag: int
    lag_seconds: float
    last_batch_ms: int


class PipelineRow(Reply):
    """One pipeline."""

    name: str
    lag: int
    last_batch_ms: int
    sinks: list[PipelineSink]


class PipelineList(Reply):
    """All pipelines that have finished a batch."""

    pipelines: list[PipelineRow]


async def list_pipelines(services: Services, _call: Call) -> PipelineList:
    """Every pipeline, by name."""
    found: dict[str, list[PipelineSink]] = {}
    for group in await services.groups.list():
        name, _, sink = group.group.removeprefix(_PREFIX).rpartition(".")
        if group.group.startswith(_PREFIX) and name:
            found.setdefault(name, []).append(_sink(sink, group.group, await services.group_progress.of(group.group)))
    return PipelineList(
        pipelines=[
            PipelineRow(
                name=name,
                lag=sum(one.lag for one in sinks),
                last_batch_ms=max(one.last_batch_ms for one in sinks),
                sinks=sinks,
            )
            for name, sinks in sorted(found.items())
        ]
    )


def _sink(name: str, group: str, places: list[PartitionProgress]) -> PipelineSink:
    return PipelineSink(
        sink=name,
        group=group,
        topics=sorted({place.topic for place in places}),
        lag=sum(place.lag for place in places),
        lag_seconds=max((place.lag_seconds for place in places), default=0.0),
        last_batch_ms=max((place.committed_ms for place in places), default=0),
    )


ROUTES = (Route("GET", "/pipelines", list_pipelines, "Pipelines and their lag", {200: PipelineList}),)
