"""Dead letters over HTTP: list them, send them back, delete them."""

from __future__ import annotations

from goqueue.delivery.dead_letters.letters import Edits, Letter, LetterFilter, letter_of
from goqueue.delivery.dead_letters.redrive import RedriveProgress, RedriveRequest, dead_letters_of
from goqueue.errors import InvalidRequest, OffsetOutOfRange
from goqueue.ids import DEAD_LETTER_SUFFIX, QUARANTINE_SUFFIX
from goqueue.records import Isolation, Record, TopicPartition
from goqueue.servers.http.bodies.message_json import message_of
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.dead_letters import (
    LetterOut,
    LetterQuery,
    Letters,
    Purged,
    Redrive,
    RedriveBody,
)
from goqueue.servers.services import Services

_READ = 1000
_READ_BYTES = 4 * 1024 * 1024
# Letters looked at for one answer: who filters for a rare one asks on with the cursor.
_SCANNED_MAX = 20_000


async def list_letters(services: Services, call: Call) -> Letters:
    """Dead letters of a topic, filtered."""
    query: LetterQuery = call.query
    topic = call.path["topic"]
    places = dead_letters_of(services.topics, topic)
    if query.partition is not None:
        places = [at for at in places if at.partition == query.partition]
    total = 0
    positions: dict[TopicPartition, int] = {}
    resumed = _parse_cursor(query.cursor)
    for at, bounds in (await services.partitions.bounds(places)).items():
        total += bounds.last_stable_offset - bounds.log_start_offset
        positions[at] = max(bounds.log_start_offset, resumed.get(at.partition, 0))
    letters = await _scan(services, positions, _filter(query), query.limit)
    ends = await services.partitions.bounds(places)
    is_over = all(positions[at] >= ends[at].last_stable_offset for at in places)
    always = query.encoding == "base64"
    return Letters(
        topic=topic,
        dlq_topic=_name(topic),
        total=total,
        letters=[_letter(at, one, base64_always=always) for at, one in letters],
        cursor=None if is_over else ",".join(f"{at.partition}:{offset}" for at, offset in positions.items()),
    )


async def redrive(services: Services, call: Call) -> Answer:
    """Send dead letters back, as a job."""
    body: RedriveBody = call.body
    request = RedriveRequest(
        topic=call.path["topic"],
        filter=_filter(body),
        edits=Edits({name: None if one is None else one.encode() for name, one in (body.headers or {}).items()}),
        to=body.to,
        all_groups=body.all_groups,
        limit=body.limit,
        per_second=body.per_second,
        dry_run=body.dry_run,
    )
    return Answer(202, _redrive(await services.redrives.start(request)))


async def redrive_progress(services: Services, call: Call) -> Redrive:
    """How far the last redrive is. Letters outlive the topic they came from, and so does their redrive."""
    dead_letters_of(services.topics, call.path["topic"])
    return _redrive(services.redrives.progress(call.path["topic"]))


async def cancel_redrive(services: Services, call: Call) -> Redrive:
    """Stop a redrive; what it has sent stays sent."""
    dead_letters_of(services.topics, call.path["topic"])
    return _redrive(await services.redrives.cancel(call.path["topic"]))


async def purge(services: Services, call: Call) -> Purged:
    """Delete all dead letters of a topic."""
    topic = call.path["topic"]
    purged = 0
    for at in dead_letters_of(services.topics, topic):
        bounds = (await services.partitions.bounds([at]))[at]
        if bounds.high_watermark > bounds.log_start_offset:
            purged += bounds.high_watermark - bounds.log_start_offset
            await services.partitions.delete_records(at.topic, at.partition, bounds.high_watermark)
    return Purged(topic=topic, dlq_topic=_name(topic), purged=purged)


async def _scan(
    services: Services, positions: dict[TopicPartition, int], wanted: LetterFilter, limit: int
) -> list[tuple[TopicPartition, Letter]]:
    """Letters that are wanted, partition after partition; `positions` are moved to where to go on."""
    found: list[tuple[TopicPartition, Letter]] = []
    scanned = 0
    for at in list(positions):
        while len(found) < limit and scanned < _SCANNED_MAX:
            try:
                read = await services.reads.read(
                    {at: positions[at]}, limit=_READ, max_bytes=_READ_BYTES, isolation=Isolation.READ_COMMITTED
                )
            except OffsetOutOfRange:
                break
            page = read[at]
            if page.error is not None or page.next_offset == positions[at]:
                break
            for record in page.records:
                if len(found) >= limit:
                    break
                scanned += 1
                positions[at] = record.offset + 1
                letter = _of(at, record)
                if wanted.takes(letter):
                    found.append((at, letter))
            else:
                positions[at] = page.next_offset
    return found


def _of(at: TopicPartition, record: Record) -> Letter:
    return letter_of(at.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers)


def _letter(at: TopicPartition, letter: Letter, *, base64_always: bool) -> LetterOut:
    record = Record(letter.offset, letter.timestamp_ms, letter.key, letter.value, letter.headers)
    history = letter.history
    return LetterOut(
        message=message_of(at.topic, at.partition, record, base64_always=base64_always),
        topic=history.get("topic"),
        partition=letter.number("partition"),
        offset=letter.number("offset"),
        timestamp=letter.number("timestamp"),
        group=history.get("group"),
        consumer=history.get("consumer"),
        delivery_count=letter.number("delivery-count"),
        first_delivered_at=letter.number("first-delivered"),
        last_delivered_at=letter.number("last-delivered"),
        died_at=letter.number("died"),
        reason=history.get("reason"),
        error=history.get("error"),
    )


def _filter(asked: LetterQuery | RedriveBody) -> LetterFilter:
    name, equals, value = (asked.header or "").partition("=")
    return LetterFilter(
        reason=asked.reason,
        group=asked.group,
        key=None if asked.key is None else asked.key.encode(),
        header=name if asked.header is not None else None,
        header_value=value.encode() if equals else None,
        since_ms=asked.since,
        until_ms=asked.until,
    )


def _parse_cursor(text: str | None) -> dict[int, int]:
    places: dict[int, int] = {}
    for part in (text or "").split(",") if text else ():
        partition, _, offset = part.partition(":")
        if not (partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
            raise InvalidRequest(
                "the cursor is not valid", field="cursor", hint="send the cursor of the previous response unchanged"
            )
        if len(partition) > 10 or len(offset) > 19:
            raise InvalidRequest("the cursor is not valid", field="cursor")
        places[int(partition)] = int(offset)
    return places


def _redrive(progress: RedriveProgress) -> Redrive:
    return Redrive(
        topic=progress.topic,
        state=str(progress.state),
        dry_run=progress.dry_run,
        total=progress.total,
        scanned=progress.scanned,
        matched=progress.matched,
        redriven=progress.redriven,
        failed=progress.failed,
        started_at=progress.started_ms,
        ended_at=progress.ended_ms,
        error=progress.error,
    )


def _name(topic: str) -> str:
    return topic if topic.endswith((DEAD_LETTER_SUFFIX, QUARANTINE_SUFFIX)) else topic + DEAD_LETTER_SUFFIX


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/dlq",
        list_letters,
        "List dead letters",
        {200: Letters},
        query=LetterQuery,
        errors=(400, 404),
    ),
    Route("DELETE", "/topics/{topic}/dlq", purge, "Delete dead letters", {200: Purged}, errors=(400, 403, 404)),
    Route(
        "POST",
        "/topics/{topic}/dlq/redrive",
        redrive,
        "Send dead letters back",
        {202: Redrive},
        body=RedriveBody,
        body_optional=True,
        errors=(400, 403, 404, 409, 503),
    ),
    Route(
        "GET",
        "/topics/{topic}/dlq/redrive",
        redrive_progress,
        "Progress of a redrive",
        {200: Redrive},
        errors=(400, 404),
    ),
    Route(
        "DELETE",
        "/topics/{topic}/dlq/redrive",
        cancel_redrive,
        "Stop a redrive",
        {200: Redrive},
        errors=(400, 404),
    ),
)
