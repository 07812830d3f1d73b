"""ConsumeService.Consume: a topic as a stream of batches, from a position that the reader names."""

from __future__ import annotations

from typing import Any, NamedTuple

from goqueue.broker.reading.queries import EARLIEST, LATEST, OffsetSpec
from goqueue.broker.reading.record_reads import RecordsRead
from goqueue.errors import InvalidRequest
from goqueue.protos import common_pb2, consume_pb2
from goqueue.records import Isolation, TopicPartition
from goqueue.servers.grpc.sending import Sending
from goqueue.servers.grpc.values import message_of, unreadable_ranges
from goqueue.servers.named_partitions import places_of
from goqueue.servers.services import Services

HEARTBEAT_MS = 5_000
MESSAGES_MAX = 1000
BATCH_BYTES = 1024 * 1024
_OFFSET_MAX = 2**63 - 1


class Batching(NamedTuple):
    """How much goes into one batch."""

    messages_max: int
    bytes_max: int


async def consume(services: Services, request: Any, context: Any) -> None:
    """Send batches until the limit or the end time is reached, or the client goes."""
    isolation = _isolation(request)
    batching = batching_of(services, request)
    positions = await _positions(services, request, isolation)
    left = request.limit if request.HasField("limit") else None
    if left is not None and left < 1:
        raise InvalidRequest(f"limit {left} is not a number of messages", field="limit", hint="use 1 or more")
    to_ms = request.to_timestamp_ms if request.HasField("to_timestamp_ms") else None
    sending = Sending(context, services.answers)
    while left is None or left > 0:
        await services.answers.room()
        found = await services.reads.read(
            positions,
            limit=batching.messages_max if left is None else min(left, batching.messages_max),
            max_bytes=batching.bytes_max,
            wait_ms=HEARTBEAT_MS,
            isolation=isolation,
        )
        batch, is_over = _batch(found, positions, to_ms)
        if left is not None:
            left -= len(batch.messages)
        if batch.messages or batch.unreadable:
            await sending.write(consume_pb2.ConsumeResponse(batch=batch))
        elif not is_over:
            await sending.write(consume_pb2.ConsumeResponse(heartbeat=heartbeat(services)))
        if is_over or (to_ms is not None and services.clock.now_ms() > to_ms and not batch.messages):
            return


def heartbeat(services: Services) -> Any:
    """Shows that the stream is alive."""
    return consume_pb2.StreamHeartbeat(timestamp_ms=services.clock.now_ms())


def batching_of(services: Services, request: Any) -> Batching:
    """How much a reader takes at once."""
    messages_max = request.max_messages if request.HasField("max_messages") else MESSAGES_MAX
    if not 1 <= messages_max <= 10_000:
        raise InvalidRequest(f"max_messages {messages_max} is not from 1 to 10000", field="max_messages")
    bytes_max = request.max_bytes if request.HasField("max_bytes") else BATCH_BYTES
    if bytes_max < 1:
        raise InvalidRequest(f"max_bytes {bytes_max} is not a number of bytes", field="max_bytes", hint="use 1 or more")
    return Batching(messages_max, min(bytes_max, services.config.grpc.message_bytes_max))


def _batch(
    found: dict[TopicPartition, RecordsRead], positions: dict[TopicPartition, int], to_ms: int | None
) -> tuple[Any, bool]:
    """What was read as one batch, and whether the end time was reached; positions are moved on."""
    batch = consume_pb2.MessageBatch()
    is_over = False
    for at, one in found.items():
        if one.error is not None:
            raise one.error
        records = one.records
        if to_ms is not None:
            inside = [record for record in records if record.timestamp_ms <= to_ms]
            is_over = is_over or len(inside) < len(records)
            records = inside
        if records or one.next_offset != positions[at]:
            batch.next_offsets.add(topic=at.topic, partition=at.partition, offset=one.next_offset)
        positions[at] = one.next_offset
        batch.messages.extend([message_of(at.topic, at.partition, record) for record in records])
        batch.unreadable.extend(unreadable_ranges(at, one.unreadable))
    return batch, is_over


def _isolation(request: Any) -> Isolation:
    if request.isolation == common_pb2.ISOLATION_READ_UNCOMMITTED:
        return Isolation.READ_UNCOMMITTED
    return Isolation.READ_COMMITTED


async def _positions(services: Services, request: Any, isolation: Isolation) -> dict[TopicPartition, int]:
    """The offset at which each partition begins."""
    places = places_of(services, request.topic, None)
    if request.partitions:
        wanted = list(dict.fromkeys(request.partitions))
        places = [place for one in wanted for place in places_of(services, request.topic, one)]
    said = [name for name in ("start_offset", "start_timestamp_ms") if request.HasField(name)]
    said += ["start_position"] if request.start_position else []
    if len(said) > 1:
        raise InvalidRequest(f"{' and '.join(said)} exclude each other", field=said[1])
    for name in ("start_offset", "start_timestamp_ms"):
        if getattr(request, name) < 0:
            raise InvalidRequest(f"{name} is negative", field=name)
    if request.HasField("start_offset"):
        if len(places) > 1:
            raise InvalidRequest(
                "an offset counts within one partition", field="start_offset", hint="name the partition, or use offsets"
            )
        return dict.fromkeys(places, request.start_offset)
    given = _given(request, places)
    return {
        at: given[at.partition] if at.partition in given else await _start(services, at, request, isolation)
        for at in places
    }


def _given(request: Any, places: list[TopicPartition]) -> dict[int, int]:
    known = {at.partition for at in places}
    for partition, offset in request.offsets.items():
        if partition not in known:
            raise InvalidRequest(f"offsets names partition {partition}, which is not read here", field="offsets")
        if not 0 <= offset <= _OFFSET_MAX:
            raise InvalidRequest(f"offset {offset} of partition {partition} is not an offset", field="offsets")
    return dict(request.offsets)


async def _start(services: Services, at: TopicPartition, request: Any, isolation: Isolation) -> int:
    async def look(spec: OffsetSpec) -> int | None:
        found = await services.partitions.offset_at(at, spec, isolation)
        return None if found is None else found.offset

    if request.HasField("start_timestamp_ms"):
        found = await look(request.start_timestamp_ms)
        # Nothing is that young: begin with what comes next.
        return found if found is not None else await look(LATEST) or 0
    return await look(LATEST if request.start_position == common_pb2.START_POSITION_LATEST else EARLIEST) or 0
