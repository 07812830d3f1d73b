"""DescribeCluster: the nodes and the id of the cluster. Versions 0-2."""

from __future__ import annotations

from goqueue.security.model import Resource
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(key=60, name="DescribeCluster", versions=(0, 2))

BROKERS = 1
FENCED_FROM = 2
MISMATCHED_ENDPOINT_TYPE = 114


def handle(context: Context, request: Message) -> Reply:
    """The living nodes, or from version 2 on all that registered, and the controller."""
    if request.endpoint_type != BROKERS:
        return {
            "error_code": MISMATCHED_ENDPOINT_TYPE,
            "error_message": "this address serves brokers",
            "endpoint_type": BROKERS,
        }
    cluster = context.services.cluster
    shown = cluster.brokers()
    if context.api_version >= FENCED_FROM and request.include_fenced_brokers:
        fenced = (cluster.broker(node) for node in sorted(cluster.nodes()) if not cluster.is_alive(node))
        shown += [one for one in fenced if one is not None]
    reply: dict[str, object] = {
        "cluster_id": context.services.identity.cluster_id,
        "controller_id": cluster.controller(),
        "brokers": [
            {
                "broker_id": one.node_id,
                "host": one.host,
                "port": one.port,
                "rack": one.rack,
                "is_fenced": not cluster.is_alive(one.node_id),
            }
            for one in shown
        ],
    }
    if request.include_cluster_authorized_operations:
        reply["cluster_authorized_operations"] = context.services.access.operations(Resource.CLUSTER)
    return reply
