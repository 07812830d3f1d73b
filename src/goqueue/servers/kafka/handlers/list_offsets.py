"""ListOffsets: the offset at a time, at the start, at the end or of the largest timestamp.

Versions 1-11.
"""

from __future__ import annotations

from collections.abc import Awaitable

from goqueue.broker.reading.queries import LATEST
from goqueue.errors import GoQueueError
from goqueue.records import Isolation
from goqueue.servers.kafka.api import UNSUPPORTED_VERSION, Api, Context, Message, Reply, error_code, when_open

API = Api(
    key=2,
    name="ListOffsets",
    versions=(1, 11),
    gaps=("There is one tier: the latest tiered and the earliest pending offset (-5, -6) are answered -1.",),
)

# Points that only exist where old segments move to a second tier.
_OTHER_TIER = (-5, -6)

# The version from which each special timestamp may be asked for.
_SINCE = {-3: 7, -4: 8, -5: 9, -6: 11}

Row = dict[str, object]


def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]:
    """One row per partition asked for, once all of them are open."""
    places = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    opening = context.services.queries.opening(places)
    return when_open(opening, lambda: _reply(context, request))


def _reply(context: Context, request: Message) -> Reply:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_row(context, request, topic.name, one) for one in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _row(context: Context, request: Message, topic: str, asked: Message) -> Row:
    index, spec = asked.partition_index, asked.timestamp
    if context.api_version < _SINCE.get(spec, 0):
        return {"partition_index": index, "error_code": UNSUPPORTED_VERSION}
    committed = request.isolation_level == Isolation.READ_COMMITTED
    try:
        found = context.services.queries.list_offset(
            topic,
            index,
            LATEST if spec in _OTHER_TIER else spec,
            Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED,
            leader_epoch=asked.current_leader_epoch,
        )
    except (GoQueueError, OSError) as error:
        return {"partition_index": index, "error_code": error_code(error)}
    if found is None or spec in _OTHER_TIER:
        return {"partition_index": index}
    return {
        "partition_index": index,
        "offset": found.offset,
        "timestamp": found.timestamp_ms,
        "leader_epoch": found.leader_epoch,
    }
