"""PublishService: one message, several, or frame after frame over a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import grpc

from goqueue.broker.arrivals.record_publishing import Published
from goqueue.delay.values import SlotId
from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.protos import publish_pb2
from goqueue.records import Acks
from goqueue.servers.grpc.methods import read
from goqueue.servers.grpc.refusals import detail_of
from goqueue.servers.grpc.values import ACK_MODES, acks_of, incoming_of
from goqueue.servers.publishing import Incoming, Sequenced, check_deduplication, publish_messages, reach_of, refused
from goqueue.servers.services import Services

# Frames of one stream that are being stored or whose answers are not sent yet; then no more are read.
FRAMES_MAX = 64
_OF_A_RECORD = frozenset(
    {"key", "value", "headers", "timestamp_ms", "partition", "priority", "delay", "deliver_at", "deduplication_id"}
)


async def publish(services: Services, request: Any, _context: Any) -> Any:
    """Publish one message."""
    acks = acks_of(services, request.ack_mode)
    if not request.HasField("record"):
        raise InvalidRequest("there is no record", field="record", hint="an empty record is a message without a value")
    messages = _Messages([request.record], services.clock.now_ms())
    (outcome,) = await _publish(services, request, request.topic, messages, None)
    if outcome.error is not None:
        raise _placed(outcome.error, "record")
    answer = publish_pb2.PublishResponse(result=_result(outcome, ""), ack_mode=ACK_MODES[acks])
    _put_reach(services, answer, request.topic, acks, [outcome])
    return answer


async def publish_batch(services: Services, request: Any, _context: Any) -> Any:
    """Publish several messages of one topic."""
    acks = acks_of(services, request.ack_mode)
    if not request.records:
        raise InvalidRequest("there are no records", field="records")
    messages = _Messages(request.records, services.clock.now_ms())
    outcomes = await _publish(services, request, request.topic, messages, _partition(request))
    answer = publish_pb2.PublishBatchResponse(
        results=[_result(one, f"records[{at}]") for at, one in enumerate(outcomes)],
        count=sum([one.error is None for one in outcomes]),
        ack_mode=ACK_MODES[acks],
        duplicate=any(one.duplicate for one in outcomes),
    )
    _put_reach(services, answer, request.topic, acks, outcomes)
    return answer


def _put_reach(services: Services, answer: Any, topic: str, acks: Acks, outcomes: Sequence[Published]) -> None:
    if acks is not Acks.ALL:
        return
    # What is delayed, or was refused, has no partition.
    written = {one.partition for one in outcomes if one.error is None and one.due_ms is None}
    reach = reach_of(services, topic, written)
    if reach is not None:
        answer.durability, answer.replicas = reach


async def publish_stream(services: Services, context: Any) -> None:
    """Publish frame after frame; answers are in the order of the frames."""
    stream = _Stream(services)
    answers: asyncio.Queue[asyncio.Future[Any] | None] = asyncio.Queue(FRAMES_MAX)

    async def read_frames() -> None:
        try:
            while (frame := await read(context)) is not grpc.aio.EOF:
                # Waits while too many frames have no answer yet, and so the client does.
                await answers.put(await stream.begin(frame))
        finally:
            await answers.put(None)

    reading = asyncio.create_task(read_frames())
    try:
        while (answer := await answers.get()) is not None:
            await context.write(await answer)
        await reading
    finally:
        reading.cancel()
        stream.stop()
        with suppress(asyncio.CancelledError):
            await reading


class _Messages:
    """The messages of a request, looked at once."""

    __slots__ = ("deduplicated", "found", "has_keys")

    def __init__(self, records: Sequence[Any], now_ms: int) -> None:
        self.found: list[Incoming | GoQueueError] = []
        self.has_keys = False
        # The first that has a deduplication id.
        self.deduplicated: int | None = None
        for at, record in enumerate(records):
            try:
                message = incoming_of(record, now_ms)
            except InvalidRequest as error:
                self.found.append(error)
                continue
            self.found.append(message)
            if message.record.key is not None:
                self.has_keys = True
            if self.deduplicated is None and message.record.headers and record.HasField("deduplication_id"):
                self.deduplicated = at


class _Stream:
    """The frames of one stream that are under way."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._topic = ""
        self._turn = 0
        self._under_way: set[asyncio.Task[Any]] = set()

    async def begin(self, frame: Any) -> asyncio.Future[Any]:
        """Begin to store a frame. Frames are written in the order in which they begin."""
        self._topic = frame.topic or self._topic
        messages = _Messages(frame.records, self._services.clock.now_ms())
        written = asyncio.Event()
        task = asyncio.create_task(self._store(frame, self._topic, messages, written.set))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda _: written.set())
        # What is left then is the wait for the disk, which the frames behind it may do at the same time.
        await written.wait()
        return task

    def _partition(self, frame: Any, topic: str, messages: _Messages) -> int | None:
        """The frame's partition. Records without keys stay together: one batch, and one range in the answer."""
        partition = _partition(frame)
        if partition is not None or frame.HasField("producer_id"):
            return partition
        known = self._services.topics.find(topic)
        if known is None or messages.has_keys:
            return None
        self._turn += 1
        return self._turn % known.partition_count

    def stop(self) -> None:
        """Nobody is there to be answered."""
        for task in self._under_way:
            task.cancel()

    async def _store(self, frame: Any, topic: str, messages: _Messages, written: Callable[[], None]) -> Any:
        first, count = frame.correlation_id, len(messages.found)
        response = publish_pb2.PublishStreamResponse(
            first_correlation_id=first, last_correlation_id=first + max(count, 1) - 1
        )
        try:
            if not topic:
                raise InvalidRequest("the first frame of a stream names the topic", field="topic")
            if not count:
                raise InvalidRequest("there are no records", field="records")
            partition = self._partition(frame, topic, messages)
            outcomes = await _publish(self._services, frame, topic, messages, partition, written)
        except GoQueueError as error:
            response.failures.add(first_correlation_id=first, count=max(count, 1), error=detail_of(error, error.field))
            return response
        _put_ranges(response, outcomes, first)
        return response


async def _publish(
    services: Services,
    request: Any,
    topic: str,
    messages: _Messages,
    partition: int | None,
    written: Callable[[], None] | None = None,
) -> list[Published]:
    """Publish messages; what concerns all of them is raised."""
    sequenced = _sequenced(request)
    named = messages.deduplicated
    if named is not None:
        await services.topics.ensure(topic)
        check_deduplication(services, topic, f"records[{named}].deduplication_id", is_sequenced=sequenced is not None)
    try:
        return await publish_messages(
            services,
            topic,
            messages.found,
            acks=acks_of(services, request.ack_mode),
            partition=partition,
            sequenced=sequenced,
            written=written,
        )
    except GoQueueError as error:
        if len(messages.found) > 1 or sequenced is not None:
            raise
        return [refused(error)]


def _sequenced(request: Any) -> Sequenced | None:
    if not request.HasField("producer_id"):
        return None
    for needed in ("producer_epoch", "sequence"):
        if not request.HasField(needed):
            raise InvalidRequest(f"producer_id needs {needed} beside it", field=needed)
    transaction_id = request.transaction_id if request.HasField("transaction_id") else None
    numbers = _Numbers(request.producer_id, request.producer_epoch, request.sequence)
    for name, value in numbers._asdict().items():
        if value < 0:
            raise InvalidRequest(f"{name} {value} is negative", field=name)
    return Sequenced(*numbers, transaction_id)


class _Numbers(NamedTuple):
    producer_id: int
    producer_epoch: int
    sequence: int


def _partition(request: Any) -> int | None:
    return request.partition if request.HasField("partition") else None


def _result(outcome: Published, place: str) -> Any:
    if outcome.error is not None:
        error = _placed(outcome.error, place)
        return publish_pb2.PublishResult(error=detail_of(error, error.field))
    result = publish_pb2.PublishResult(duplicate=outcome.duplicate)
    if outcome.due_ms is not None:
        result.delayed = True
        result.slot = str(SlotId(outcome.partition, outcome.offset))
        result.deliver_at.FromMilliseconds(outcome.due_ms)
        return result
    result.partition, result.offset, result.timestamp_ms = outcome.partition, outcome.offset, outcome.timestamp_ms
    return result


def _placed(error: GoQueueError, place: str) -> GoQueueError:
    """The error, its field named within the record."""
    field = "timestamp_ms" if error.field == "timestamp" else error.field
    if field in _OF_A_RECORD:
        error.field = f"{place}.{field}"
    return error


def _put_ranges(response: Any, outcomes: Sequence[Published], first: int) -> None:
    """Runs of neighbours, each as one range; every record is in exactly one range or failure."""
    last = None
    for at, outcome in enumerate(outcomes):
        partition, offset, timestamp_ms, error, duplicate, due_ms = outcome
        if error is not None:
            field = _placed(error, f"records[{at}]").field
            response.failures.add(first_correlation_id=first + at, count=1, error=detail_of(error, field))
            last = None
        elif due_ms is not None:
            held = response.ranges.add(first_correlation_id=first + at, count=1, duplicate=duplicate)
            held.slot = str(SlotId(partition, offset))
            held.deliver_at.FromMilliseconds(due_ms)
            last = None
        elif (
            last is not None
            and partition == last.partition
            and offset == last.first_offset + last.count
            and timestamp_ms == last.timestamp_ms
            and duplicate == last.duplicate
        ):
            last.count += 1
        else:
            last = response.ranges.add(
                first_correlation_id=first + at,
                count=1,
                partition=partition,
                first_offset=offset,
                timestamp_ms=timestamp_ms,
                duplicate=duplicate,
            )
