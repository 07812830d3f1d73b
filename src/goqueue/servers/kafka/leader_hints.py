"""Who leads instead: what a client that asked the wrong node is told along with the refusal (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.errors import NotLeader
from goqueue.servers.kafka.api import Context

Row = dict[str, object]


def current_leader(error: BaseException | None) -> Row:
    """The field `current_leader` of a partition's row, where the refusal names one."""
    if not isinstance(error, NotLeader) or error.leader < 0:
        return {}
    return {"current_leader": {"leader_id": error.leader, "leader_epoch": error.leader_epoch}}


def endpoints(context: Context, errors: Iterable[BaseException | None]) -> Row:
    """The field `node_endpoints` of a reply: where the leaders are that its rows name."""
    leaders = {one.leader for one in errors if isinstance(one, NotLeader) and one.leader >= 0}
    found = [context.services.cluster.broker(leader) for leader in sorted(leaders)]
    rows = [
        {"node_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack}
        for one in found
        if one is not None
    ]
    return {"node_endpoints": rows} if rows else {}
