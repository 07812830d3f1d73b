"""The HTTP application: every route, at `/` and at `/v1`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from weakref import WeakSet

from aiohttp import web

from goqueue.servers.http import health
from goqueue.servers.http.adapter import adapt
from goqueue.servers.http.admission.browser_guard import BrowserGuard
from goqueue.servers.http.admission.entrance import Entrances
from goqueue.servers.http.admission.unmatched import answer_unmatched
from goqueue.servers.http.docs import describe
from goqueue.servers.http.routes import (
    cluster,
    delay,
    lane_reads,
    node,
    pipeline_page,
    pipelines,
    prepared,
    publish,
    read,
    schema_settings,
    schemas,
    security,
    topics,
    traces,
    transactions,
)
from goqueue.servers.http.routes.groups import cooperative, groups, members
from goqueue.servers.http.routes.queues import dead_letters, policy, queue, queue_connection
from goqueue.servers.operations import Route
from goqueue.servers.services import Services

_API = (
    # First, because routes are tried in this order and this one is called for every message.
    *publish.ROUTES,
    *queue.ROUTES,
    *queue_connection.ROUTES,
    *health.ROUTES,
    *node.ROUTES,
    *cluster.ROUTES,
    *topics.ROUTES,
    *transactions.ROUTES,
    *prepared.ROUTES,
    *delay.ROUTES,
    *read.ROUTES,
    *lane_reads.ROUTES,
    *groups.ROUTES,
    *members.ROUTES,
    *cooperative.ROUTES,
    *policy.ROUTES,
    *dead_letters.ROUTES,
    *pipelines.ROUTES,
    *pipeline_page.ROUTES,
    *traces.ROUTES,
    *schemas.ROUTES,
    *schema_settings.ROUTES,
    *security.ROUTES,
)
ROUTES = (*_API, *describe(_API))
PREFIXES = ("", "/v1")


def make_app(
    services: Services,
    heard: Callable[[object], None],
    entrances: Entrances | None = None,
    routes: Sequence[Route] = ROUTES,
) -> web.Application:
    """All routes over the services; nothing listens yet. `heard` is told of every connection that spoke."""
    if entrances is None:
        entrances = Entrances(BrowserGuard(names=(), allowed_hosts=(), cors_origin=services.config.http.cors_origin))
    app = web.Application(client_max_size=services.config.http.body_bytes_max)
    app[queue_connection.OPEN] = WeakSet()
    app.on_shutdown.append(queue_connection.close_connections)
    # Ids count up from the start time, so that they differ over restarts too.
    numbers = itertools.count(1)
    started = f"{services.identity.started_ms:x}"
    for route in routes:
        handler = adapt(route, services, heard, lambda: f"{started}-{next(numbers):x}", entrances)
        for prefix in PREFIXES:
            for base in ("", *route.bases):
                app.router.add_route(route.method, prefix + base + route.path, handler)
    app.router.add_route("*", "/{path:.*}", answer_unmatched(services.config.http.cors_origin))
    return app
