"""Fetch: stored batches out of partitions, now or when there are enough of them.

Versions 4-18, by name and (13 and later) by topic id, without a session or within one (KIP-227).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from goqueue.broker.reading.fetch import FetchedPartition, FetchQuery, PartitionRead
from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply
from goqueue.servers.kafka.leader_hints import endpoints
from goqueue.servers.kafka.reading.fetch_rows import TOPIC_IDS_FROM, fetch_query, fetch_row, unknown_row
from goqueue.servers.kafka.reading.fetch_sessions import FINAL_EPOCH
from goqueue.servers.kafka.reading.session_fetch import fetch_in_session

API = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    gaps=("Followers of other brokers are not served: the replica id is ignored.",),
    ends_with_client=True,
    order=Order.POLL,
)


def handle(context: Context, request: Message) -> Reply | Awaitable[Reply]:
    """Answer at once if there is enough; else wait."""
    if request.session_epoch != FINAL_EPOCH or request.session_id:
        answer = fetch_in_session(context, request)
        if answer is not None:
            return answer
    names, unknown = _topic_names(context, request)
    reads = [
        PartitionRead(name, one.partition, one.fetch_offset, one.partition_max_bytes, one.current_leader_epoch)
        for topic, name in zip(request.topics, names, strict=True)
        if name is not None
        for one in topic.partitions
    ]
    query = fetch_query(request, reads, is_urgent=unknown is not None)
    fetched = context.services.fetch.fetch_now(query)
    if fetched is None:
        return _wait(context, request, query, names, unknown)
    return _reply(context, request, query, fetched, names, unknown)


def _topic_names(context: Context, request: Message) -> tuple[list[str | None], GoQueueError | None]:
    """Each topic's name; None for an id that we do not know, and the error for those."""
    if context.api_version < TOPIC_IDS_FROM:
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
    return _reply(context, request, query, await context.services.fetch.fetch(query), names, unknown)


def _reply(
    context: Context,
    request: Message,
    query: FetchQuery,
    fetched: Sequence[FetchedPartition],
    names: Sequence[str | None],
    unknown: GoQueueError | None,
) -> Reply:
    parts = iter(fetched)
    return {
        **(endpoints(context, errors) if (errors := [one.error for one in fetched if one.error is not None]) else {}),
        "responses": [
            {
                "topic": topic.topic,
                "topic_id": topic.topic_id,
                "partitions": [
                    unknown_row(one.partition, unknown) if name is None else fetch_row(next(parts), query.isolation)
                    for one in topic.partitions
                ],
            }
            for topic, name in zip(request.topics, names, strict=True)
        ],
    }
