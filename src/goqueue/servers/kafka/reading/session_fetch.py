"""A fetch within a session: the reader names what changed since its last request, and hears what changed since then."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from goqueue.broker.reading.fetch import FetchedPartition, PartitionRead
from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Context, Message, Reply
from goqueue.servers.kafka.reading.fetch_rows import TOPIC_IDS_FROM, Row, fetch_query, fetch_row, unknown_row
from goqueue.servers.kafka.reading.fetch_sessions import (
    FETCH_SESSION_ID_NOT_FOUND,
    FULL_EPOCH,
    FetchSession,
    SessionKey,
    SessionPartition,
    TopicKey,
)


def fetch_in_session(context: Context, request: Message) -> Reply | Awaitable[Reply] | None:
    """The answer within a session; None when the request is to be answered without one."""
    sessions, uses_ids = context.fetch_sessions, context.api_version >= TOPIC_IDS_FROM
    now_ms = context.services.clock.monotonic_ms()
    is_full = request.session_epoch <= FULL_EPOCH
    if is_full:
        # A reader that begins again, or goes, does not need what it had.
        sessions.close(request.session_id)
        if request.session_epoch < FULL_EPOCH:
            return None
        opened = sessions.open(_reads(context, request), uses_ids=uses_ids, now_ms=now_ms)
        if opened is None:
            return None
        session = opened
    else:
        found = sessions.go_on(request.session_id, request.session_epoch, uses_ids=uses_ids, now_ms=now_ms)
        if isinstance(found, int):
            return {"error_code": found}
        session = found
        if not sessions.change(session, _reads(context, request), _forgotten(request, uses_ids=uses_ids)):
            return {"error_code": FETCH_SESSION_ID_NOT_FOUND}
    return _answer(context, request, session, is_full=is_full)


def _answer(context: Context, request: Message, session: FetchSession, *, is_full: bool) -> Reply | Awaitable[Reply]:
    asked, gone = _by_topic(context, session)
    query = fetch_query(request, [one.read for one in asked], is_urgent=bool(gone))

    def reply(fetched: Sequence[FetchedPartition]) -> Reply:
        rows: dict[TopicKey, list[Row]] = {}
        for one, error in gone:
            one.high_watermark = -1
            rows.setdefault(one.key.topic, []).append(unknown_row(one.key.partition, error))
        served = []
        for one, part in zip(asked, fetched, strict=True):
            if one.is_news(part) or is_full:
                rows.setdefault(one.key.topic, []).append(fetch_row(part, query.isolation))
            if part.batches:
                served.append(one.key)
        session.give_way(served)
        return {
            "session_id": session.id if session.partitions else 0,
            "responses": [_topic_row(topic, of_topic, session) for topic, of_topic in rows.items()],
        }

    async def wait() -> Reply:
        return reply(await context.services.fetch.fetch(query))

    fetched = context.services.fetch.fetch_now(query)
    return wait() if fetched is None else reply(fetched)


def _topic_row(topic: TopicKey, rows: list[Row], session: FetchSession) -> Row:
    return {"topic_id" if session.uses_ids else "topic": topic, "partitions": rows}


def _by_topic(
    context: Context, session: FetchSession
) -> tuple[list[SessionPartition], list[tuple[SessionPartition, GoQueueError]]]:
    """What can be read, and what cannot because its topic is gone: an id may have become another topic's name."""
    if not session.uses_ids:
        return list(session.partitions.values()), []
    names: dict[TopicKey, str | GoQueueError] = {}
    asked: list[SessionPartition] = []
    gone: list[tuple[SessionPartition, GoQueueError]] = []
    for one in session.partitions.values():
        topic = one.key.topic
        name = names.get(topic)
        if name is None:
            name = names[topic] = _name(context, topic)
        if isinstance(name, GoQueueError):
            gone.append((one, name))
            continue
        if one.read.topic != name:
            one.read = one.read._replace(topic=name)
        asked.append(one)
    return asked, gone


def _name(context: Context, topic: TopicKey) -> str | GoQueueError:
    try:
        return context.services.topics.by_id(topic).name  # type: ignore[arg-type]
    except GoQueueError as error:
        return error


def _reads(context: Context, request: Message) -> list[tuple[SessionKey, PartitionRead]]:
    uses_ids = context.api_version >= TOPIC_IDS_FROM
    return [
        (
            SessionKey(topic.topic_id if uses_ids else topic.topic, one.partition),
            PartitionRead(
                "" if uses_ids else topic.topic,
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
            ),
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _forgotten(request: Message, *, uses_ids: bool) -> list[SessionKey]:
    return [
        SessionKey(topic.topic_id if uses_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
