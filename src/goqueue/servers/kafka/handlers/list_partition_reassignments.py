"""ListPartitionReassignments: partitions whose replicas are being changed. Version 0."""

from __future__ import annotations

from goqueue.servers.kafka.api import Api, Context, Message, Reply

API = Api(key=46, name="ListPartitionReassignments", versions=(0, 0))


def handle(context: Context, request: Message) -> Reply:
    """All of them, or those that are asked for."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
    topics: dict[str, list[dict[str, object]]] = {}
    for name, number, one in context.services.replicas.reassignments():
        if wanted is None or (name, number) in wanted:
            topics.setdefault(name, []).append(
                {
                    "partition_index": number,
                    "replicas": (*one.replicas, *one.adding),
                    "adding_replicas": one.adding,
                    "removing_replicas": one.removing,
                }
            )
    return {"topics": [{"name": name, "partitions": rows} for name, rows in topics.items()]}
