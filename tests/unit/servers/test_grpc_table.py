"""The gRPC API offers what HTTP offers, and every method that the protos declare is served."""

from __future__ import annotations

from goqueue.rpc.table import BY_HAND, ROWS
from goqueue.servers.grpc.server import BY_HAND as WRITTEN
from goqueue.servers.grpc.server import service_descriptors
from goqueue.servers.http.app import ROUTES

# Routes about the HTTP server itself: health is `grpc.health.v1`, and the rest is for browsers and Prometheus. The
# queue connection carries the receives and settlements of other routes over a WebSocket.
NOT_DATA = {
    "GET /",
    "GET /docs",
    "GET /openapi.json",
    "GET /metrics",
    "GET /health",
    "GET /healthz",
    "GET /livez",
    "GET /readyz",
    "GET /queue/connection",
    "GET /pipelines/{name}/live",
    # Views for operators; `ClusterService.GetCluster` has the nodes.
    "GET /cluster/events",
    "GET /cluster/health",
    "GET /cluster/metadata",
    "GET /cluster/nodes",
    "GET /cluster/partitions",
    "GET /cluster/state",
    "POST /cluster/elections",
    # Clients of other registries ask for it, and are told that there are none.
    "GET /associations/resources/{namespace}/{name}",
}

# Users, roles and rules are administered, not read and written as data.
SECURITY = "/admin/security/"


def test_every_operation_that_http_has_for_data_has_a_method() -> None:
    served = {row.operation for row in ROWS} | {row.without for row in ROWS if row.without} | set(BY_HAND)
    offered = {f"{route.method} {route.path}" for route in ROUTES if not route.path.startswith(SECURITY)} - NOT_DATA
    assert offered - served == set()
    assert served - offered == set()


def test_every_method_of_the_protos_is_served_once() -> None:
    declared = {f"{service.name}.{method.name}" for service in service_descriptors() for method in service.methods}
    plain = [f"{row.service}.{row.method}" for row in ROWS]
    assert sorted([*plain, *WRITTEN]) == sorted(declared)
    assert {name for names in BY_HAND.values() for name in names} <= declared


def test_names_of_the_first_api_are_kept() -> None:
    methods = {service.name: {one.name for one in service.methods} for service in service_descriptors()}
    assert {"Publish", "PublishStream"} <= methods["PublishService"]
    assert {"Consume", "Subscribe"} <= methods["ConsumeService"]
    assert {"Ack", "Nack", "Reject", "ExtendVisibility", "BatchAck"} <= methods["AckService"]
    assert {"CommitOffsets", "FetchOffsets", "ResetOffsets"} <= methods["OffsetService"]
    assert {
        "InitProducer",
        "BeginTransaction",
        "AddPartition",
        "CommitTransaction",
        "AbortTransaction",
        "ListTransactions",
        "DescribeTransaction",
    } <= methods["TransactionService"]


def test_every_enum_begins_with_unspecified() -> None:
    from goqueue.protos import common_pb2

    enums = common_pb2.DESCRIPTOR.enum_types_by_name.values()
    assert [one.name for one in enums if not one.values_by_number[0].name.endswith("_UNSPECIFIED")] == []
