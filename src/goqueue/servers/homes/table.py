"""The table: the home of every operation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.ids import DEAD_LETTER_SUFFIX, QUARANTINE_SUFFIX
from goqueue.schemas.service import SCHEMAS
from goqueue.servers.homes.kinds import (
    HERE,
    AtCoordinator,
    AtLeader,
    Everywhere,
    Home,
    in_body,
    in_path,
)
from goqueue.servers.operations import Call
from goqueue.tracing.store import TRACES
from goqueue.transactions.service import TRANSACTION_STATE

_GROUP = AtCoordinator(CONSUMER_OFFSETS, in_path("group"))
_TRANSACTION = AtCoordinator(TRANSACTION_STATE, in_body("transactional_id"))
_TRANSACTIONAL_ID = AtCoordinator(TRANSACTION_STATE, in_path("transactional_id"))
_WRITER = AtCoordinator(TRANSACTION_STATE, in_path("writer"))
# Stories have one shard, and so has the registry: any key leads there.
_STORIES = AtCoordinator(TRACES, lambda _call: "")
_REGISTRY = AtCoordinator(SCHEMAS, lambda _call: "")


def _number(call: Call, name: str) -> int:
    text = call.path[name]
    # What is not a number the operation itself refuses, wherever it is answered.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


def _partition(call: Call) -> tuple[str, int]:
    return call.path["topic"], _number(call, "partition")


def _slot(call: Call) -> tuple[str, int]:
    return call.path["topic"], _number(call, "slot_partition")


def _letters(call: Call) -> tuple[str, int]:
    """A redrive is a job of the node that leads the first partition of the dead letters."""
    topic = call.path["topic"]
    return (topic if topic.endswith((DEAD_LETTER_SUFFIX, QUARANTINE_SUFFIX)) else topic + DEAD_LETTER_SUFFIX), 0


HOMES: Mapping[str, Home] = MappingProxyType(
    {
        # Services that ask the leaders by themselves.
        "POST /topics/{topic}/messages": HERE,
        "POST /topics/{topic}/receive": HERE,
        "POST /messages/ack": HERE,
        "POST /messages/nack": HERE,
        "POST /messages/reject": HERE,
        "POST /messages/visibility": HERE,
        "GET /queue/connection": HERE,
        "GET /topics/{topic}/messages": HERE,
        "GET /topics/{topic}/partitions/{partition}/messages": HERE,
        "GET /topics/{topic}/partitions/{partition}/offset": HERE,
        "GET /topics/{topic}/messages/stream": HERE,
        "GET /topics/{topic}/dlq": HERE,
        "DELETE /topics/{topic}/dlq": HERE,
        "POST /topics/{topic}/partitions/{partition}/truncate": HERE,
        # The metadata, which every node has.
        "POST /topics": HERE,
        "GET /topics": HERE,
        "GET /topics/{topic}": HERE,
        "PUT /topics/{topic}": HERE,
        "PATCH /topics/{topic}": HERE,
        "DELETE /topics/{topic}": HERE,
        "GET /topics/{topic}/partitions": HERE,
        "GET /cluster": HERE,
        "GET /cluster/events": HERE,
        "GET /cluster/health": HERE,
        "GET /cluster/metadata": HERE,
        "GET /cluster/nodes": HERE,
        "GET /cluster/partitions": HERE,
        "GET /cluster/state": HERE,
        "POST /cluster/elections": HERE,
        "GET /admin/security/whoami": HERE,
        "GET /admin/security/users": HERE,
        "PUT /admin/security/users/{name}": HERE,
        "DELETE /admin/security/users/{name}": HERE,
        "GET /admin/security/keys": HERE,
        "POST /admin/security/keys": HERE,
        "DELETE /admin/security/keys/{key_id}": HERE,
        "GET /admin/security/roles": HERE,
        "PUT /admin/security/roles/{name}": HERE,
        "DELETE /admin/security/roles/{name}": HERE,
        "GET /admin/security/bindings": HERE,
        "POST /admin/security/bindings": HERE,
        "DELETE /admin/security/bindings": HERE,
        "GET /admin/security/acls": HERE,
        "POST /admin/security/acls": HERE,
        "DELETE /admin/security/acls": HERE,
        # About the node that is asked, and no other.
        "GET /health": HERE,
        "GET /healthz": HERE,
        "GET /livez": HERE,
        "GET /readyz": HERE,
        "GET /version": HERE,
        "GET /stats": HERE,
        "GET /metrics": HERE,
        "GET /admin/instant": HERE,
        "GET /": HERE,
        "GET /openapi.json": HERE,
        "GET /docs": HERE,
        # Lanes are read where they are counted.
        "GET /topics/{topic}/partitions/{partition}/messages/priority": AtLeader(_partition),
        "GET /topics/{topic}/partitions/{partition}/messages/fair": AtLeader(_partition),
        "GET /topics/{topic}/partitions/{partition}/messages/{offset}/story": _STORIES,
        # Transactions.
        "POST /producers/init": _TRANSACTION,
        "POST /producers/{producer_id}/heartbeat": _TRANSACTION,
        "POST /transactions/begin": _TRANSACTION,
        "POST /transactions/publish": _TRANSACTION,
        "POST /transactions/add-partition": _TRANSACTION,
        "POST /transactions/offsets": _TRANSACTION,
        "POST /transactions/ack": _TRANSACTION,
        "POST /transactions/commit": _TRANSACTION,
        "POST /transactions/abort": _TRANSACTION,
        "GET /transactions": Everywhere(rows="transactions", order=("transactional_id",)),
        "GET /transactions/stats": Everywhere(largest=frozenset({"oldest_open_ms", "end_ms_mean"})),
        "GET /transactions/{transactional_id}": _TRANSACTIONAL_ID,
        "POST /transactions/{transactional_id}/abort": _TRANSACTIONAL_ID,
        "POST /prepared/{writer}/{epoch}/participants": _WRITER,
        "POST /prepared/{writer}/{epoch}/commit": _WRITER,
        "POST /prepared/{writer}/{epoch}/abort": _WRITER,
        "GET /prepared": Everywhere(rows="writers", order=("writer",)),
        "GET /prepared/{writer}": _WRITER,
        # Delayed and recurring messages.
        "GET /topics/{topic}/delayed": Everywhere(rows="messages", order=("deliver_at", "slot"), is_paged=True),
        "GET /topics/{topic}/delayed/{slot_partition}/{slot_offset}": AtLeader(_slot),
        "DELETE /topics/{topic}/delayed/{slot_partition}/{slot_offset}": AtLeader(_slot),
        "PATCH /topics/{topic}/delayed/{slot_partition}/{slot_offset}": AtLeader(_slot),
        "POST /topics/{topic}/delayed/{slot_partition}/{slot_offset}/now": AtLeader(_slot),
        "GET /delay/stats": Everywhere(largest=frozenset({"late_ms_max", "tick_ms"})),
        "POST /schedules": HERE,
        "GET /schedules": Everywhere(rows="schedules", order=("name",)),
        "GET /schedules/{name}": HERE,
        "DELETE /schedules/{name}": HERE,
        # Groups.
        "GET /groups": Everywhere(rows="groups", order=("id",)),
        "GET /groups/{group}": _GROUP,
        "DELETE /groups/{group}": _GROUP,
        "GET /groups/{group}/offsets": _GROUP,
        "POST /groups/{group}/offsets": _GROUP,
        "DELETE /groups/{group}/offsets": _GROUP,
        "POST /groups/{group}/offsets/reset": _GROUP,
        "POST /groups/{group}/join": _GROUP,
        "POST /groups/{group}/heartbeat": _GROUP,
        "POST /groups/{group}/leave": _GROUP,
        "DELETE /groups/{group}/members/{member}": _GROUP,
        "GET /groups/{group}/poll": _GROUP,
        "POST /groups/{group}/poll": _GROUP,
        "GET /groups/{group}/assignment": _GROUP,
        "POST /groups/{group}/join/cooperative": _GROUP,
        "POST /groups/{group}/heartbeat/cooperative": _GROUP,
        "POST /groups/{group}/revoke": _GROUP,
        "POST /groups/{group}/leave/cooperative": _GROUP,
        "GET /groups/{group}/cooperative": _GROUP,
        "GET /groups/{group}/rebalance/stats": _GROUP,
        "GET /rebalance/stats": Everywhere(),
        "GET /groups/{group}/policy": _GROUP,
        "PATCH /groups/{group}/policy": _GROUP,
        "GET /reliability/stats": Everywhere(),
        "GET /priority/stats": Everywhere(largest=frozenset({"last_served_at", "waiting_ms"})),
        "POST /topics/{topic}/dlq/redrive": AtLeader(_letters),
        "GET /topics/{topic}/dlq/redrive": AtLeader(_letters),
        "DELETE /topics/{topic}/dlq/redrive": AtLeader(_letters),
        "GET /pipelines": HERE,
        "GET /pipelines/{name}/live": HERE,
        # Stories.
        "GET /traces": _STORIES,
        "GET /traces/search": _STORIES,
        "GET /traces/stats": Everywhere(),
        "GET /traces/{trace_id}": _STORIES,
        # The registry.
        **dict.fromkeys(
            (
                "GET /subjects",
                "POST /subjects/{subject}",
                "DELETE /subjects/{subject}",
                "GET /subjects/{subject}/metadata",
                "GET /subjects/{subject}/versions",
                "POST /subjects/{subject}/versions",
                "GET /subjects/{subject}/versions/{version}",
                "DELETE /subjects/{subject}/versions/{version}",
                "GET /subjects/{subject}/versions/{version}/schema",
                "GET /subjects/{subject}/versions/{version}/referencedby",
                "GET /schemas",
                "GET /schemas/ids/{schema_id}",
                "GET /schemas/ids/{schema_id}/schema",
                "GET /schemas/ids/{schema_id}/subjects",
                "GET /schemas/ids/{schema_id}/versions",
                "GET /schemas/guids/{guid}",
                "GET /schemas/guids/{guid}/ids",
                "POST /compatibility/subjects/{subject}/versions",
                "POST /compatibility/subjects/{subject}/versions/{version}",
                "GET /config",
                "PUT /config",
                "DELETE /config",
                "GET /config/{subject}",
                "PUT /config/{subject}",
                "DELETE /config/{subject}",
                "GET /mode",
                "PUT /mode",
                "DELETE /mode",
                "GET /mode/{subject}",
                "PUT /mode/{subject}",
                "DELETE /mode/{subject}",
                "GET /contexts",
                "GET /schemas/stats",
            ),
            _REGISTRY,
        ),
        "GET /schemas/types": HERE,
        "GET /associations/resources/{namespace}/{name}": HERE,
    }
)
