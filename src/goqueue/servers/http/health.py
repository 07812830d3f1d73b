"""Whether the broker lives and serves: what probes and people ask first.

`/livez` says that the process answers at all; `/readyz` really checks, and fails with 503
as long as anything the node needs is missing.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime

from goqueue.security.model import Operation, Resource
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.common import Reply
from goqueue.servers.services import Services


class CheckResult(Reply):
    """One check; `problem` says what is missing, `warning` what an operator should look at."""

    name: str
    ok: bool
    problem: str | None = None
    warning: str | None = None


class Health(Reply):
    """The verdict (ok, degraded or unavailable) and what led to it."""

    status: str
    checks: list[CheckResult]


class Version(Reply):
    """What is running here, and since when."""

    version: str
    # The commit and the time of the build; empty where the build did not know them.
    commit: str
    built: str
    python: str
    started_at: str


async def live(services: Services, _call: Call) -> Health:  # noqa: ARG001
    """The process answers."""
    return Health(status="ok", checks=[])


async def ready(services: Services, _call: Call) -> Answer:
    """Everything the node needs in order to serve is there."""
    checks = [
        CheckResult(name=one.name, ok=one.problem is None, problem=one.problem, warning=one.warning)
        for one in services.checks()
    ]
    is_ready = all(one.ok for one in checks)
    if not services.access.may(Operation.DESCRIBE, Resource.CLUSTER):
        # Whoever shows no credentials learns whether to send requests here, and nothing else.
        return Answer(200 if is_ready else 503, Health(status="ok" if is_ready else "unavailable", checks=[]))
    if not is_ready:
        return Answer(503, Health(status="unavailable", checks=checks))
    # It serves all but what is damaged: to take it out of service would make everything unavailable.
    degraded = any(one.warning is not None for one in checks)
    return Answer(200, Health(status="degraded" if degraded else "ok", checks=checks))


async def version(services: Services, _call: Call) -> Version:
    """The broker's version."""
    started = datetime.fromtimestamp(services.identity.started_ms / 1000, UTC)
    return Version(
        version=services.identity.version,
        commit=services.identity.commit,
        built=services.identity.built,
        python=platform.python_version(),
        started_at=started.isoformat(timespec="milliseconds"),
    )


ROUTES = (
    Route("GET", "/health", ready, "Whether the broker can serve", {200: Health, 503: Health}),
    Route("GET", "/healthz", live, "Whether the process answers", {200: Health}),
    Route("GET", "/livez", live, "Whether the process answers", {200: Health}),
    Route("GET", "/readyz", ready, "Whether the broker can serve", {200: Health, 503: Health}),
    Route("GET", "/version", version, "The broker's version", {200: Version}),
)
