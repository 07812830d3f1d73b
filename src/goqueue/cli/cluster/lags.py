"""How far replicas are behind, asked of any node that lives: the metadata store does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goqueue.cli import contexts
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.metadata.image import Image

_ANSWER_S_MAX = 3.0

# By topic and partition, then by node: records, or None where that is not known.
Lags = Mapping[tuple[str, int], Mapping[str, int | None]]


def lags_of(image: Image) -> Lags:
    """The lag of every replica, with the credentials of the current context; empty if no node answers."""
    for server in _living(image):
        try:
            rows = asyncio.run(_ask(server))
        except (GoQueueError, OSError):
            continue
        return {(row["topic"], row["partition"]): row.get("lag", {}) for row in rows}
    return {}


def shown(lag: Mapping[str, int | None] | None) -> str:
    """The lags of one partition as a cell: the followers that are behind, by node."""
    if lag is None:
        return "?"
    rows = [f"{node}:{'?' if records is None else records}" for node, records in lag.items() if records != 0]
    return ",".join(rows) or "0"


def behind_by_node(lags: Lags) -> dict[int, str]:
    """Records that all replicas of a node are behind, as a cell; with a question mark where one is not known."""
    total: dict[int, int] = {}
    unknown: set[int] = set()
    for lag in lags.values():
        for node, records in lag.items():
            total[int(node)] = total.get(int(node), 0) + (records or 0)
            if records is None:
                unknown.add(int(node))
    return {node: f"{records}{'?' if node in unknown else ''}" for node, records in total.items()}


def _living(image: Image) -> list[str]:
    # Registered addresses do not say whether they want TLS; the one that the user talks to does.
    scheme = "https" if contexts.resolve().server.startswith("https") else "http"
    nodes = [image.nodes()[node] for node in sorted(image.sessions)]
    return [f"{scheme}://{node.addresses['http']}" for node in nodes if "http" in node.addresses]


async def _ask(server: str) -> list[dict[str, Any]]:
    # Not above: the client's imports take longer than a command that asks nobody.
    from goqueue.client import RetryPolicy, connect

    chosen = contexts.resolve(server)
    async with connect(
        chosen.server, timeout=_ANSWER_S_MAX, **chosen.credentials.fields(), retry=RetryPolicy(attempts_max=1)
    ) as client:
        return list((await client.get("/cluster/partitions"))["partitions"])
