"""DescribeCluster: the nodes and the id of the cluster. Versions 0-2."""

from __future__ import annotations

from goqueue.security.model import Resource
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(key=60, name="DescribeCluster", versions=(0, 2))

BROKERS = 1
MISMATCHED_ENDPOINT_TYPE = 114


def handle(context: Context, request: Message) -> Reply:
    """This node, which is its own controller."""
    if request.endpoint_type != BROKERS:
        return {
            "error_code": MISMATCHED_ENDPOINT_TYPE,
            "error_message": "this address serves brokers",
            "endpoint_type": BROKERS,
        }
    identity = context.services.identity
    reply: dict[str, object] = {
        "cluster_id": identity.cluster_id,
        "controller_id": identity.node_id,
        "brokers": [{"broker_id": identity.node_id, "host": identity.kafka_host, "port": identity.kafka_port}],
    }
    if request.include_cluster_authorized_operations:
        reply["cluster_authorized_operations"] = context.services.access.operations(Resource.CLUSTER)
    return reply
