"""What each HTTP route and each Kafka API needs by itself, before the services check the names in the request.

One row for each. A route or an API without a row is refused when security is on, and a test fails for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from goqueue.errors import NotAuthorized
from goqueue.security.model import Operation, Resource
from goqueue.servers.access.needs import topic_of_subject

if TYPE_CHECKING:
    from goqueue.servers.services import Services


class DoorNeed(NamedTuple):
    """`is_open`: no credentials. `by_setting`: none if security.open_routes names it. Else an operation on the cluster.

    With `of_subject` it is an operation on the topic of the subject that the path names. With nothing of these the
    caller must be authenticated, and the services check the rest.
    """

    is_open: bool = False
    by_setting: str = ""
    operation: Operation | None = None
    of_subject: bool = False


OPEN = DoorNeed(is_open=True)
SERVICES = DoorNeed()
DESCRIBE = DoorNeed(operation=Operation.DESCRIBE)
CLUSTER_ACTION = DoorNeed(operation=Operation.CLUSTER_ACTION)
ALTER_CONFIGS = DoorNeed(operation=Operation.ALTER_CONFIGS)


def _subject(operation: Operation) -> DoorNeed:
    return DoorNeed(operation=operation, of_subject=True)


def is_open(need: DoorNeed, open_routes: Collection[str]) -> bool:
    """Whether it is answered without credentials."""
    return need.is_open or (bool(need.by_setting) and need.by_setting in open_routes)


def require(services: Services, need: DoorNeed | None, subject: str | None = None) -> None:
    """Raise unless the caller may use this door."""
    if need is None:
        raise NotAuthorized("no access rule is defined for this operation, so it is refused for every caller")
    if need.operation is None:
        return
    if need.by_setting and need.by_setting in services.config.security.open_routes:
        return
    if need.of_subject:
        services.access.require(need.operation, Resource.TOPIC, topic_of_subject(subject or ""))
    else:
        services.access.require(need.operation, Resource.CLUSTER)


HTTP_NEEDS: Mapping[tuple[str, str], DoorNeed] = MappingProxyType(
    {
        ("GET", "/health"): OPEN,
        ("GET", "/healthz"): OPEN,
        ("GET", "/livez"): OPEN,
        ("GET", "/readyz"): OPEN,
        ("GET", "/version"): DoorNeed(by_setting="version"),
        ("GET", "/metrics"): DoorNeed(by_setting="metrics", operation=Operation.DESCRIBE),
        ("GET", "/"): DoorNeed(by_setting="docs"),
        ("GET", "/docs"): DoorNeed(by_setting="docs"),
        ("GET", "/openapi.json"): DoorNeed(by_setting="docs"),
        ("GET", "/stats"): DESCRIBE,
        ("GET", "/cluster"): DESCRIBE,
        ("GET", "/cluster/events"): DESCRIBE,
        ("GET", "/cluster/health"): DESCRIBE,
        ("GET", "/cluster/metadata"): DESCRIBE,
        ("GET", "/cluster/nodes"): DESCRIBE,
        ("GET", "/cluster/partitions"): DESCRIBE,
        ("GET", "/cluster/state"): DESCRIBE,
        ("POST", "/cluster/elections"): SERVICES,
        ("GET", "/admin/instant"): CLUSTER_ACTION,
        ("GET", "/delay/stats"): DESCRIBE,
        ("GET", "/transactions/stats"): DESCRIBE,
        ("GET", "/traces/stats"): DESCRIBE,
        # The schema registry. A subject is guarded like the topic that it is named for.
        ("GET", "/subjects"): DESCRIBE,
        ("POST", "/subjects/{subject}"): _subject(Operation.DESCRIBE),
        ("DELETE", "/subjects/{subject}"): _subject(Operation.DELETE),
        ("GET", "/subjects/{subject}/metadata"): _subject(Operation.DESCRIBE),
        ("GET", "/subjects/{subject}/versions"): _subject(Operation.DESCRIBE),
        ("POST", "/subjects/{subject}/versions"): _subject(Operation.WRITE),
        ("GET", "/subjects/{subject}/versions/{version}"): _subject(Operation.DESCRIBE),
        ("DELETE", "/subjects/{subject}/versions/{version}"): _subject(Operation.DELETE),
        ("GET", "/subjects/{subject}/versions/{version}/schema"): _subject(Operation.DESCRIBE),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby"): _subject(Operation.DESCRIBE),
        ("POST", "/compatibility/subjects/{subject}/versions"): _subject(Operation.DESCRIBE),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}"): _subject(Operation.DESCRIBE),
        ("GET", "/config/{subject}"): _subject(Operation.DESCRIBE_CONFIGS),
        ("PUT", "/config/{subject}"): _subject(Operation.ALTER_CONFIGS),
        ("DELETE", "/config/{subject}"): _subject(Operation.ALTER_CONFIGS),
        ("GET", "/mode/{subject}"): _subject(Operation.DESCRIBE_CONFIGS),
        ("PUT", "/mode/{subject}"): _subject(Operation.ALTER_CONFIGS),
        ("DELETE", "/mode/{subject}"): _subject(Operation.ALTER_CONFIGS),
        ("PUT", "/config"): ALTER_CONFIGS,
        ("DELETE", "/config"): ALTER_CONFIGS,
        ("PUT", "/mode"): ALTER_CONFIGS,
        ("DELETE", "/mode"): ALTER_CONFIGS,
        ("GET", "/schemas"): DESCRIBE,
        ("GET", "/schemas/stats"): DESCRIBE,
        ("GET", "/schemas/ids/{schema_id}/subjects"): DESCRIBE,
        ("GET", "/schemas/ids/{schema_id}/versions"): DESCRIBE,
        **dict.fromkeys(
            (
                # Whoever reads messages needs their schemas, and has only their ids. The route itself hides schemas
                # of which the caller may describe no subject.
                ("GET", "/schemas/ids/{schema_id}"),
                ("GET", "/schemas/ids/{schema_id}/schema"),
                ("GET", "/schemas/guids/{guid}"),
                ("GET", "/schemas/guids/{guid}/ids"),
                # There are none, and serializers of every producer and consumer ask.
                ("GET", "/associations/resources/{namespace}/{name}"),
                ("GET", "/schemas/types"),
                ("GET", "/config"),
                ("GET", "/mode"),
                ("GET", "/contexts"),
                # Every receive and settlement on the connection is a service call of its own.
                ("GET", "/queue/connection"),
                ("POST", "/topics/{topic}/messages"),
                ("POST", "/producers/init"),
                ("POST", "/topics/{topic}/receive"),
                ("POST", "/messages/ack"),
                ("POST", "/messages/nack"),
                ("POST", "/messages/reject"),
                ("POST", "/messages/visibility"),
                ("POST", "/topics"),
                ("GET", "/topics"),
                ("GET", "/topics/{topic}"),
                ("PUT", "/topics/{topic}"),
                ("PATCH", "/topics/{topic}"),
                ("DELETE", "/topics/{topic}"),
                ("GET", "/topics/{topic}/partitions"),
                ("POST", "/topics/{topic}/partitions/{partition}/truncate"),
                ("POST", "/producers/{producer_id}/heartbeat"),
                ("POST", "/transactions/begin"),
                ("POST", "/transactions/publish"),
                ("POST", "/transactions/add-partition"),
                ("POST", "/transactions/offsets"),
                ("POST", "/transactions/ack"),
                ("POST", "/transactions/commit"),
                ("POST", "/transactions/abort"),
                ("GET", "/transactions"),
                ("GET", "/transactions/{transactional_id}"),
                ("POST", "/transactions/{transactional_id}/abort"),
                ("POST", "/prepared/{writer}/{epoch}/participants"),
                ("POST", "/prepared/{writer}/{epoch}/commit"),
                ("POST", "/prepared/{writer}/{epoch}/abort"),
                ("GET", "/prepared"),
                ("GET", "/prepared/{writer}"),
                ("GET", "/topics/{topic}/delayed"),
                ("GET", "/topics/{topic}/delayed/{slot_partition}/{slot_offset}"),
                ("DELETE", "/topics/{topic}/delayed/{slot_partition}/{slot_offset}"),
                ("PATCH", "/topics/{topic}/delayed/{slot_partition}/{slot_offset}"),
                ("POST", "/topics/{topic}/delayed/{slot_partition}/{slot_offset}/now"),
                ("POST", "/schedules"),
                ("GET", "/schedules"),
                ("GET", "/schedules/{name}"),
                ("DELETE", "/schedules/{name}"),
                ("GET", "/topics/{topic}/messages"),
                ("GET", "/topics/{topic}/partitions/{partition}/messages"),
                ("GET", "/topics/{topic}/partitions/{partition}/offset"),
                ("GET", "/topics/{topic}/messages/stream"),
                ("GET", "/topics/{topic}/partitions/{partition}/messages/priority"),
                ("GET", "/topics/{topic}/partitions/{partition}/messages/fair"),
                ("GET", "/groups"),
                ("GET", "/groups/{group}"),
                ("DELETE", "/groups/{group}"),
                ("GET", "/groups/{group}/offsets"),
                ("POST", "/groups/{group}/offsets"),
                ("DELETE", "/groups/{group}/offsets"),
                ("POST", "/groups/{group}/offsets/reset"),
                ("POST", "/groups/{group}/join"),
                ("POST", "/groups/{group}/heartbeat"),
                ("POST", "/groups/{group}/leave"),
                ("DELETE", "/groups/{group}/members/{member}"),
                ("GET", "/groups/{group}/poll"),
                ("POST", "/groups/{group}/poll"),
                ("GET", "/groups/{group}/assignment"),
                ("POST", "/groups/{group}/join/cooperative"),
                ("POST", "/groups/{group}/heartbeat/cooperative"),
                ("POST", "/groups/{group}/revoke"),
                ("POST", "/groups/{group}/leave/cooperative"),
                ("GET", "/groups/{group}/cooperative"),
                ("GET", "/groups/{group}/rebalance/stats"),
                ("GET", "/rebalance/stats"),
                ("GET", "/groups/{group}/policy"),
                ("PATCH", "/groups/{group}/policy"),
                ("GET", "/reliability/stats"),
                ("GET", "/priority/stats"),
                ("GET", "/topics/{topic}/dlq"),
                ("DELETE", "/topics/{topic}/dlq"),
                ("POST", "/topics/{topic}/dlq/redrive"),
                ("GET", "/topics/{topic}/dlq/redrive"),
                ("DELETE", "/topics/{topic}/dlq/redrive"),
                ("GET", "/pipelines"),
                ("GET", "/pipelines/{name}/live"),
                ("GET", "/topics/{topic}/partitions/{partition}/messages/{offset}/story"),
                ("GET", "/traces"),
                ("GET", "/traces/search"),
                ("GET", "/traces/{trace_id}"),
                ("GET", "/admin/security/whoami"),
                ("GET", "/admin/security/users"),
                ("PUT", "/admin/security/users/{name}"),
                ("DELETE", "/admin/security/users/{name}"),
                ("GET", "/admin/security/keys"),
                ("POST", "/admin/security/keys"),
                ("DELETE", "/admin/security/keys/{key_id}"),
                ("GET", "/admin/security/roles"),
                ("PUT", "/admin/security/roles/{name}"),
                ("DELETE", "/admin/security/roles/{name}"),
                ("GET", "/admin/security/bindings"),
                ("POST", "/admin/security/bindings"),
                ("DELETE", "/admin/security/bindings"),
                ("GET", "/admin/security/acls"),
                ("POST", "/admin/security/acls"),
                ("DELETE", "/admin/security/acls"),
            ),
            SERVICES,
        ),
    }
)

# By Kafka's numbers. Before authentication the connection itself lets only the open ones through.
KAFKA_NEEDS: Mapping[int, DoorNeed] = MappingProxyType(
    {
        17: OPEN,
        18: OPEN,
        36: OPEN,
        35: DESCRIBE,
        **dict.fromkeys(
            (
                *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28),
                *(29, 30, 31, 32, 33, 37, 42, 43, 44, 45, 46, 47, 48, 50, 51, 55, 60, 61, 65, 66, 68, 69, 74, 75),
                *(76, 77, 78, 79, 90, 91, 92, 10100, 10101),
            ),
            SERVICES,
        ),
    }
)
