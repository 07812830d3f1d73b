"""Streams under stress: kill -9, clients that vanish or do not read, a thousand at once."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import duration_pb2
from tests.e2e.conftest import StartBroker
from tests.e2e.grpc.api import Api, Record
from tests.e2e.process import BrokerProcess

from goqueue.protos import (
    common_pb2,
    consume_pb2,
    consume_pb2_grpc,
    publish_pb2,
    publish_pb2_grpc,
    queue_pb2,
    queue_pb2_grpc,
)

WAIT = duration_pb2.Duration(seconds=10)


def _all_values(api: Api, topic: str) -> list[bytes]:
    values: list[bytes] = []
    offsets: dict[int, int] = {}
    while True:
        page = api.call("ConsumeService.ReadTopic", topic=topic, limit=10_000, offsets=offsets)
        if not page.messages:
            return values
        values += [one.value for one in page.messages]
        offsets = dict(page.next_offsets)


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_what_a_killed_broker_acknowledged_is_there_once(start_broker: StartBroker, kills: int) -> None:
    """A producer with id and sequence streams frames, the broker is killed, and it sends again what had no answer."""
    broker = start_broker()
    api = Api(broker.grpc)
    api.call("TopicService.CreateTopic", name="t", num_partitions=1)
    producer = api.call("TransactionService.InitProducer")
    acked = -1
    sent = 0
    frame = 20
    total = 100_000_000
    for kill in range(kills + 1):
        stopping = threading.Event()
        first = acked + 1

        # As with Kafka: of five unanswered batches of a producer the broker knows the offsets when they come again.
        room = threading.Semaphore(5)

        def frames(first: int = first, stopping: Any = stopping, room: Any = room) -> Any:
            nonlocal sent
            for number in range(first, total, frame):
                room.acquire()
                if stopping.is_set():
                    return
                sent = number + frame
                yield publish_pb2.PublishStreamRequest(
                    correlation_id=number,
                    topic="t",
                    partition=0,
                    records=[Record(value=b"%d" % one) for one in range(number, number + frame)],
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    sequence=number,
                )

        stub = publish_pb2_grpc.PublishServiceStub(api.channel)
        answered = 0
        try:
            for answer in stub.PublishStream(frames(), timeout=60):
                assert not answer.failures, answer
                assert answer.first_correlation_id == acked + 1
                acked = answer.last_correlation_id
                room.release()
                answered += 1
                if answered == 50 and kill < kills:
                    broker.kill()
                if answered >= 100 and kill == kills:
                    stopping.set()
        except grpc.RpcError as error:
            if kill == kills or error.code().name not in {"UNAVAILABLE", "CANCELLED"}:  # type: ignore[attr-defined]
                raise
        finally:
            stopping.set()
            room.release()
        api.close()
        if kill < kills:
            broker.start()
        api = Api(broker.grpc)
    values = _all_values(api, "t")
    numbers = [int(one) for one in values]
    assert numbers == list(range(len(numbers))), "lost, doubled, or out of order"
    assert acked + 1 <= len(numbers) <= sent
    api.close()


def test_frames_are_stored_in_the_order_sent_from_the_first_one_on(start_broker: StartBroker) -> None:
    broker = start_broker()
    api = Api(broker.grpc)
    for topic in ("one", "two"):
        api.call("TopicService.CreateTopic", name=topic, num_partitions=1)
        # After a restart the partition is not open yet when the first frame arrives.
        broker.restart()
        frames = [
            publish_pb2.PublishStreamRequest(correlation_id=at, topic=topic, records=[Record(value=b"%d" % at)])
            for at in range(100)
        ]
        stub = publish_pb2_grpc.PublishServiceStub(api.channel)
        answers = list(stub.PublishStream(iter(frames), timeout=30, wait_for_ready=True))
        assert [one.first_correlation_id for one in answers] == list(range(100))
        assert [int(one) for one in _all_values(api, topic)] == list(range(100))
    api.close()


def test_a_cancelled_stream_gives_its_messages_back_at_once(api: Api) -> None:
    api.publish("given-back", *[b"%d" % one for one in range(5)], partition=0)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    visibility = duration_pb2.Duration(seconds=600)
    start = queue_pb2.WorkStart(topic="given-back", credit=5, visibility=visibility)
    requests.put(queue_pb2.WorkRequest(start=start))
    stream = api.invoke("QueueService.Work")(iter(requests.get, None))
    taken = next(stream).messages.messages
    assert len(taken) == 5
    requests.put(queue_pb2.WorkRequest(settle=queue_pb2.WorkSettle(acked=[taken[0].receipt_handle])))
    next(stream)
    stream.cancel()
    requests.put(None)
    again: list[Any] = []
    deadline = time.monotonic() + 20
    while len(again) < 4:
        assert time.monotonic() < deadline
        again += api.call("QueueService.Receive", topic="given-back", limit=10, wait=WAIT).messages
    assert sorted(one.value for one in again) == [b"1", b"2", b"3", b"4"]


def test_a_client_that_vanishes_gives_its_messages_back_at_once(broker: BrokerProcess, api: Api) -> None:
    api.publish("vanished", b"1", b"2", partition=0)
    own = Api(broker.grpc)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    visibility = duration_pb2.Duration(seconds=600)
    requests.put(queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="vanished", credit=5, visibility=visibility)))
    stream = own.invoke("QueueService.Work")(iter(requests.get, None))
    assert len(next(stream).messages.messages) == 2
    own.close()
    requests.put(None)
    assert len(api.call("QueueService.Receive", topic="vanished", limit=10, wait=WAIT).messages) == 2


def test_two_work_streams_of_a_group_share_its_messages(api: Api) -> None:
    api.publish("shared", *[b"%d" % one for one in range(20)], partition=0)
    seen: list[bytes] = []
    streams = []
    for _ in range(2):
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        requests.put(queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="shared", credit=10)))
        stream = api.invoke("QueueService.Work")(iter(requests.get, None), timeout=30)
        found = next(stream).messages.messages
        seen += [one.value for one in found]
        streams.append((requests, stream))
    assert sorted(map(int, seen)) == list(range(20))
    for requests, stream in streams:
        requests.put(None)
        assert list(stream) == []


@pytest.mark.slow
def test_a_reader_that_does_not_read_costs_bounded_memory(start_broker: StartBroker) -> None:
    broker = start_broker()
    api = Api(broker.grpc)
    value = b"x" * 100_000
    api.call("TopicService.CreateTopic", name="big", num_partitions=1)
    for _ in range(30):
        api.publish("big", *[value] * 20)
    process = psutil.Process(broker.pid)
    before = process.memory_info().rss

    async def stall() -> None:
        async with grpc.aio.insecure_channel(broker.grpc) as channel:
            stub = consume_pb2_grpc.ConsumeServiceStub(channel)
            streams = [stub.Consume(consume_pb2.ConsumeRequest(topic="big")) for _ in range(20)]
            for stream in streams:
                await stream.read()
            most = 0
            until = time.monotonic() + 2
            while time.monotonic() < until:
                most = max(most, process.memory_info().rss - before)
                await asyncio.sleep(0.1)
            # 20 streams of 60 MB each are asked for; what is under way is one batch of 1 MiB for each.
            assert most < 200 * 1024 * 1024, most
            # One of them reads on: nothing was lost by the stop.
            read = 0
            while read < 500:
                read += len((await streams[0].read()).batch.messages)
            for stream in streams:
                stream.cancel()

    asyncio.run(stall())
    assert api.call("NodeService.GetVersion").version
    api.close()


def test_a_publisher_that_reads_no_answers_is_slowed_down_and_loses_nothing(start_broker: StartBroker) -> None:
    broker = start_broker()
    process = psutil.Process(broker.pid)

    async def flood() -> tuple[int, int]:
        async with grpc.aio.insecure_channel(broker.grpc) as channel:
            stub = publish_pb2_grpc.PublishServiceStub(channel)
            record = common_pb2.Record(value=b"x" * 1000)
            request = publish_pb2.PublishStreamRequest(topic="flood", records=[record] * 50, partition=0)
            stream = stub.PublishStream()
            before, sent = process.memory_info().rss, 0
            until = time.monotonic() + 2
            while time.monotonic() < until:
                try:
                    await asyncio.wait_for(asyncio.shield(stream.write(request)), 0.5)
                except TimeoutError:
                    break
                sent += 1
            assert process.memory_info().rss - before < 150 * 1024 * 1024
            stored = 0
            await stream.done_writing()
            while (answer := await stream.read()) is not grpc.aio.EOF:
                assert not answer.failures
                stored += sum(one.count for one in answer.ranges)
            return sent, stored

    sent, stored = asyncio.run(flood())
    # The write that was waiting when the test stopped sending is stored too.
    assert stored in {sent * 50, (sent + 1) * 50}


@pytest.mark.slow
def test_a_thousand_streams_at_once_each_get_their_messages(start_broker: StartBroker) -> None:
    broker = start_broker()
    api = Api(broker.grpc)
    api.call("TopicService.CreateTopic", name="many", num_partitions=1)
    count = 1000

    async def read_all() -> list[bytes]:
        async with grpc.aio.insecure_channel(broker.grpc) as channel:
            stub = consume_pb2_grpc.ConsumeServiceStub(channel)
            workers = queue_pb2_grpc.QueueServiceStub(channel)
            streams = [stub.Consume(consume_pb2.ConsumeRequest(topic="many", limit=1)) for _ in range(count - 50)]
            working = [workers.Work() for _ in range(50)]
            for number, stream in enumerate(working):
                start = queue_pb2.WorkStart(topic="many", group=f"g{number}", credit=1)
                await stream.write(queue_pb2.WorkRequest(start=start))
            request = publish_pb2.PublishRequest(topic="many", record=common_pb2.Record(value=b"hello"))
            # All streams of this connection are in use, so the publisher has one of its own.
            apart = [("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.insecure_channel(broker.grpc, options=apart) as other:
                await publish_pb2_grpc.PublishServiceStub(other).Publish(request)

            async def first(stream: Any) -> bytes:
                async for answer in stream:
                    if answer.HasField("batch"):
                        return bytes(answer.batch.messages[0].value)
                raise AssertionError("the stream ended")

            found = list(await asyncio.gather(*[first(one) for one in streams]))
            for stream in working:
                found.append((await stream.read()).messages.messages[0].value)
                stream.cancel()
            return found

    assert asyncio.run(read_all()) == [b"hello"] * count
    api.close()


def test_a_stop_ends_open_streams_and_loses_nothing(start_broker: StartBroker) -> None:
    broker = start_broker()
    api = Api(broker.grpc)
    api.publish("stop", b"1", partition=0)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    visibility = duration_pb2.Duration(seconds=600)
    requests.put(queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="stop", credit=5, visibility=visibility)))
    stream = api.invoke("QueueService.Work")(iter(requests.get, None))
    assert len(next(stream).messages.messages) == 1
    assert broker.stop() == 0
    with pytest.raises(grpc.RpcError):
        next(stream)
    requests.put(None)
    api.close()
    broker.start()
    api = Api(broker.grpc)
    (message,) = api.call("QueueService.Receive", topic="stop", wait=WAIT).messages
    assert message.value == b"1"
    api.close()
