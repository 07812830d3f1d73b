"""DescribeQuorum: the controller, in the terms of Kafka's own metadata quorum. Versions 0-2."""

from __future__ import annotations

from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(
    key=55,
    name="DescribeQuorum",
    versions=(0, 2),
    gaps=("The metadata is not kept by brokers: those that are alive are shown as voters, the controller as leader.",),
)

_METADATA_TOPIC = "__cluster_metadata"


def handle(context: Context, _request: Message) -> Reply:
    """One row, for the one partition that Kafka's metadata has."""
    context.services.access.require(Operation.DESCRIBE, Resource.CLUSTER)
    cluster, now_ms = context.services.cluster, context.services.clock.now_ms()
    epoch = cluster.controller_epoch()
    voters = [
        {
            "replica_id": one.node_id,
            "log_end_offset": epoch,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }
        for one in cluster.brokers()
    ]
    partition = {
        "partition_index": 0,
        "leader_id": cluster.controller(),
        "leader_epoch": epoch & 0x7FFF_FFFF,
        "high_watermark": epoch,
        "current_voters": voters,
        "observers": [],
    }
    return {
        "topics": [{"topic_name": _METADATA_TOPIC, "partitions": [partition]}],
        "nodes": [{"node_id": one.node_id, "listeners": []} for one in cluster.brokers()],
    }
