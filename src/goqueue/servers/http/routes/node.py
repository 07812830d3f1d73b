"""The node in figures."""

from __future__ import annotations

import msgspec
from aiohttp import web

from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.types.common import Reply
from goqueue.servers.named_partitions import places_of
from goqueue.servers.services import Services


class TopicStats(Reply):
    """One topic in figures."""

    partitions: int
    messages: int
    size_bytes: int


class Stats(Reply):
    """The node in figures."""

    node_id: int
    cluster_id: str
    uptime_seconds: float
    topics: int
    partitions: int
    total_size_bytes: int
    disk_free_bytes: int
    topic_stats: dict[str, TopicStats]


class LogEndRow(Reply):
    """Where one log ends."""

    directory: str
    segment: str
    size_bytes: int


class Instant(Reply):
    """The end of every log that is being written, all at the same instant."""

    taken_ms: int
    data_dir: str
    logs: list[LogEndRow]


class StatsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to count."""

    internal: bool = False


async def stats(services: Services, call: Call) -> Stats:
    """Figures of this node. Opens no log that is not open, so counts of messages are of user topics only."""
    (log_dir,) = services.queries.log_dirs()
    sizes: dict[str, int] = {}
    for one in log_dir.partitions:
        sizes[one.topic] = sizes.get(one.topic, 0) + one.size_bytes
    topics = [topic for topic in services.topics.list() if call.query.internal or not topic.internal]
    rows = {}
    for topic in topics:
        bounds = (await services.partitions.bounds(places_of(services, topic.name, None))).values()
        rows[topic.name] = TopicStats(
            partitions=topic.partition_count,
            messages=sum(one.high_watermark - one.log_start_offset for one in bounds),
            size_bytes=sizes.get(topic.name, 0),
        )
    return Stats(
        node_id=services.identity.node_id,
        cluster_id=services.identity.cluster_id,
        uptime_seconds=(services.clock.now_ms() - services.identity.started_ms) / 1000,
        topics=len(topics),
        partitions=sum(topic.partition_count for topic in topics),
        total_size_bytes=sum(sizes.values()),
        disk_free_bytes=log_dir.usable_bytes,
        topic_stats=rows,
    )


async def instant(services: Services, _call: Call) -> Instant:
    """Where every log ends, at one instant: what a backup copies up to. Logs not listed are at rest."""
    ends = services.queries.log_ends()
    (log_dir,) = services.queries.log_dirs()
    return Instant(
        taken_ms=services.clock.now_ms(),
        data_dir=log_dir.path,
        logs=[LogEndRow(directory=one.directory, segment=one.segment, size_bytes=one.size_bytes) for one in ends],
    )


async def metrics(services: Services, _call: Call) -> web.Response:
    """Every series, for Prometheus."""
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    body = b"" if services.metrics is None else await services.metrics()
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


ROUTES = (
    Route("GET", "/stats", stats, "Statistics of this node", {200: Stats}, query=StatsQuery),
    Route("GET", "/metrics", metrics, "Metrics for Prometheus", {200: "text/plain"}),
    Route("GET", "/admin/instant", instant, "End offsets of every partition", {200: Instant}),
)
