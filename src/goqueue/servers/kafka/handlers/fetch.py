"""Fetch: stored batches out of partitions, now or when there are enough of them.

Versions 4-18, by name and (13 and later) by topic id. Sessions are refused as the protocol
lets a broker refuse them: every answer carries session id 0, so clients send all their
partitions each time; a session id that we cannot have given is answered 70 or 71.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from goqueue.broker.fetch import FetchedPartition, FetchQuery, PartitionRead
from goqueue.errors import GoQueueError
from goqueue.records import Isolation
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, error_code

API = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    gaps=(
        "No incremental sessions: each answer has session id 0, so each request names all its partitions.",
        "Followers of other brokers are not served: the replica id is ignored.",
    ),
    ends_with_client=True,
)

FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
NO_SESSION_EPOCHS = (0, -1)

Row = dict[str, object]


def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]:
    """Answer at once if there is enough; else wait."""
    refusal = _session_refusal(request)
    if refusal:
        return {"error_code": refusal}
    names, unknown = _topic_names(context, request)
    query = FetchQuery(
        reads=[
            PartitionRead(name, one.partition, one.fetch_offset, one.partition_max_bytes, one.current_leader_epoch)
            for topic, name in zip(request.topics, names, strict=True)
            if name is not None
            for one in topic.partitions
        ],
        max_bytes=max(request.max_bytes, 0),
        min_bytes=max(request.min_bytes, 0),
        # A topic that is not there is news: it is not held back until others have some.
        max_wait_ms=0 if unknown else max(request.max_wait, 0),
        isolation=_isolation(request),
    )
    fetched = context.services.fetch.fetch_now(query)
    if fetched is None:
        return _wait(context, request, query, names, unknown)
    return _reply(request, fetched, names, unknown)


def _session_refusal(request: Message) -> int:
    if request.session_epoch in NO_SESSION_EPOCHS:
        return NONE
    return FETCH_SESSION_ID_NOT_FOUND if request.session_id else INVALID_FETCH_SESSION_EPOCH


def _isolation(request: Message) -> Isolation:
    return (
        Isolation.READ_COMMITTED
        if request.isolation_level == Isolation.READ_COMMITTED
        else (Isolation.READ_UNCOMMITTED)
    )


def _topic_names(context: Context, request: Message) -> tuple[list[str | None], GoQueueError | None]:
    """Each topic's name; None for an id that we do not know, and the error for those."""
    if context.api_version < 13:
        return [topic.topic for topic in request.topics], None
    names: list[str | None] = []
    unknown = None
    for topic in request.topics:
        try:
            names.append(context.services.topics.by_id(topic.topic_id).name)
        except GoQueueError as error:
            names.append(None)
            unknown = error
    return names, unknown


async def _wait(
    context: Context,
    request: Message,
    query: FetchQuery,
    names: Sequence[str | None],
    unknown: GoQueueError | None,
) -> Reply:
    return _reply(request, await context.services.fetch.fetch(query), names, unknown)


def _reply(
    request: Message,
    fetched: Sequence[FetchedPartition],
    names: Sequence[str | None],
    unknown: GoQueueError | None,
) -> Reply:
    parts = iter(fetched)
    committed = request.isolation_level == Isolation.READ_COMMITTED
    return {
        "responses": [
            {
                "topic": topic.topic,
                "topic_id": topic.topic_id,
                "partitions": [
                    _unknown_row(one.partition, unknown) if name is None else _row(next(parts), committed=committed)
                    for one in topic.partitions
                ],
            }
            for topic, name in zip(request.topics, names, strict=True)
        ]
    }


def _row(part: FetchedPartition, *, committed: bool) -> Row:
    row: Row = {
        "partition_index": part.partition,
        "error_code": error_code(part.error),
        "high_watermark": part.high_watermark,
        "last_stable_offset": part.last_stable_offset,
        "log_start_offset": part.log_start_offset,
        "records": part.batches,
    }
    if committed:
        row["aborted_transactions"] = [
            {"producer_id": one.producer_id, "first_offset": one.first_offset} for one in part.aborted
        ]
    return row


def _unknown_row(partition: int, error: GoQueueError | None) -> Row:
    return {"partition_index": partition, "error_code": error_code(error), "high_watermark": -1}
