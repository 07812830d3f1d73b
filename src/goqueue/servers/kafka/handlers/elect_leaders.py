"""ElectLeaders: the preferred replica, or with the unclean type any that lives. Versions 0-2."""

from __future__ import annotations

from goqueue.errors import ElectionNotNeeded, GoQueueError
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, failed

API = Api(key=43, name="ElectLeaders", versions=(0, 2), order=Order.CHANGE)

_UNCLEAN = 1

Row = dict[str, object]


async def handle(context: Context, request: Message) -> Reply:
    """One result per partition; of all partitions, those that need no election are left out."""
    unclean = getattr(request, "election_type", 0) == _UNCLEAN
    wanted = request.topic_partitions
    if wanted is None:
        places = [one.place for one in context.services.cluster.partitions()]
    else:
        places = [TopicPartition(topic.topic, number) for topic in wanted for number in topic.partitions]
    topics: dict[str, list[Row]] = {}
    for place in places:
        try:
            await context.services.replicas.elect(place, unclean=unclean)
            row: Row = {"partition_id": place.partition}
        except ElectionNotNeeded as error:
            if wanted is None:
                continue
            row = {"partition_id": place.partition, **failed(error)}
        except GoQueueError as error:
            row = {"partition_id": place.partition, **failed(error)}
        topics.setdefault(place.topic, []).append(row)
    return {"replica_election_results": [{"topic": name, "partition_result": rows} for name, rows in topics.items()]}
