"""Every method of the gRPC API, called by a stock grpcio client."""

from __future__ import annotations

import itertools
import queue
import time
from typing import Any

import pytest
from google.protobuf import duration_pb2, timestamp_pb2
from tests.e2e.grpc.api import METHODS, Api, Header, Record

from goqueue.protos import common_pb2, queue_pb2

_numbers = itertools.count(1)


@pytest.fixture
def topic(api: Api) -> str:
    name = f"t{next(_numbers)}"
    api.call("TopicService.CreateTopic", name=name, num_partitions=2)
    return name


def seconds(number: float) -> Any:
    return duration_pb2.Duration(seconds=int(number), nanos=int(number % 1 * 1e9))


def test_topics_are_created_described_altered_truncated_and_deleted(api: Api) -> None:
    made = api.call("TopicService.CreateTopic", name="orders", num_partitions=3, config={"retention.ms": "60000"})
    assert (made.name, made.partitions, made.config["retention.ms"]) == ("orders", 3, "60000")
    assert "orders" in api.call("TopicService.ListTopics").topics
    assert not any(one.internal for one in api.call("TopicService.ListTopics").details)
    shown = api.call("TopicService.GetTopic", topic="orders").topic
    assert (shown.partitions, shown.overrides["retention.ms"]) == (3, "60000")
    altered = api.call("TopicService.AlterTopic", topic="orders", num_partitions=4, reset_config=["retention.ms"]).topic
    assert (altered.partitions, dict(altered.overrides)) == (4, {})
    assert api.call("TopicService.EnsureTopic", topic="made-by-naming-it").topic.partitions == 3
    api.publish("orders", b"1", b"2", b"3", partition=2)
    cut = api.call("TopicService.TruncatePartition", topic="orders", partition=2, before_offset=2)
    assert (cut.partition, cut.earliest) == (2, 2)
    rows = api.call("TopicService.ListPartitions", topic="orders").partitions
    assert [(one.partition, one.earliest, one.latest) for one in rows][2] == (2, 2, 3)
    assert api.call("TopicService.DeleteTopic", topic="orders").deleted
    assert api.refused("TopicService.GetTopic", topic="orders").code == "NOT_FOUND"


def test_any_bytes_are_published_and_read_unchanged(api: Api, topic: str) -> None:
    record = Record(
        key=b"\xff\x00",
        value=b"\xfe",
        headers=[Header(name="h", value=b"\x80"), Header(name="h", value=b"2"), Header(name="none")],
        priority=common_pb2.PRIORITY_CRITICAL,
        timestamp_ms=1_790_000_000_000,
        partition=1,
    )
    stored = api.call("PublishService.Publish", topic=topic, record=record, ack_mode=common_pb2.ACK_MODE_ALL)
    assert (stored.result.partition, stored.result.offset, stored.ack_mode) == (1, 0, common_pb2.ACK_MODE_ALL)
    for method, fields in (
        ("ConsumeService.ReadPartition", {"partition": 1}),
        ("ConsumeService.ReadTopic", {}),
        ("ConsumeService.ReadByPriority", {"partition": 1}),
        ("ConsumeService.ReadFairly", {"partition": 1}),
    ):
        (message,) = api.call(method, topic=topic, **fields).messages
        assert (message.key, message.value, message.priority) == (b"\xff\x00", b"\xfe", common_pb2.PRIORITY_CRITICAL)
        assert [(one.name, one.value, one.HasField("value")) for one in message.headers][:3] == [
            ("h", b"\x80", True),
            ("h", b"2", True),
            ("none", b"", False),
        ]
        assert message.timestamp_ms == 1_790_000_000_000


def test_an_empty_value_a_null_and_an_empty_key_stay_what_they_are(api: Api, topic: str) -> None:
    records = [Record(value=b"", partition=0), Record(partition=0), Record(key=b"", value=b"x", partition=0)]
    api.call("PublishService.PublishBatch", topic=topic, records=records)
    found = api.call("ConsumeService.ReadPartition", topic=topic, partition=0).messages
    assert [(one.HasField("key"), one.HasField("value"), one.value) for one in found] == [
        (False, True, b""),
        (False, False, b""),
        (True, True, b"x"),
    ]


def test_reads_go_on_where_they_are_told_to(api: Api, topic: str) -> None:
    api.publish(topic, *[b"%d" % number for number in range(6)], partition=0)
    first = api.call("ConsumeService.ReadTopic", topic=topic, limit=4)
    rest = api.call("ConsumeService.ReadTopic", topic=topic, offsets=dict(first.next_offsets))
    assert [one.value for one in (*first.messages, *rest.messages)] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    by_offset = api.call("ConsumeService.ReadPartition", topic=topic, partition=0, offset=0, limit=1)
    assert [one.value for one in by_offset.messages] == [b"0"]
    stamp = first.messages[0].timestamp_ms
    assert api.call("ConsumeService.FindOffset", topic=topic, partition=0, timestamp_ms=stamp).offset == 0
    latest = common_pb2.START_POSITION_LATEST
    assert api.call("ConsumeService.FindOffset", topic=topic, partition=0, start=latest).offset == 6
    lanes = api.call("ConsumeService.ReadByPriority", topic=topic, partition=0, limit=2)
    on = api.call("ConsumeService.ReadByPriority", topic=topic, partition=0, offsets=dict(lanes.next_offsets))
    assert [one.value for one in on.messages] == [b"2", b"3", b"4", b"5"]


def test_a_stream_follows_a_topic(api: Api, topic: str) -> None:
    api.publish(topic, b"1", b"2", partition=0)
    stream = api.invoke("ConsumeService.Consume")(
        api.request("ConsumeService.Consume", topic=topic, limit=3), timeout=30
    )
    values = [one.value for one in next(stream).batch.messages]
    api.publish(topic, b"3", partition=1)
    for answer in stream:
        values += [one.value for one in answer.batch.messages]
    assert values == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"start_offset": 1, "partitions": [0]}, [b"2", b"3"]),
        ({"offsets": {0: 2}}, [b"3"]),
        ({"start_timestamp_ms": 2000}, [b"2", b"3"]),
        ({"to_timestamp_ms": 2000}, [b"1", b"2"]),
    ],
)
def test_a_stream_begins_and_ends_where_it_is_told_to(api: Api, start: dict[str, Any], expected: list[bytes]) -> None:
    topic = f"from{next(_numbers)}"
    api.call("TopicService.CreateTopic", name=topic, num_partitions=1)
    records = [Record(value=b"%d" % number, timestamp_ms=number * 1000, partition=0) for number in (1, 2, 3)]
    api.call("PublishService.PublishBatch", topic=topic, records=records)
    limit = {} if "to_timestamp_ms" in start else {"limit": len(expected)}
    request = api.request("ConsumeService.Consume", topic=topic, **start, **limit)
    stream = api.invoke("ConsumeService.Consume")(request, timeout=30)
    assert [one.value for answer in stream for one in answer.batch.messages] == expected


def test_a_publish_stream_answers_each_frame_with_ranges(api: Api, topic: str) -> None:
    frame = "PublishService.PublishStream"
    frames = [
        api.request(frame, correlation_id=10, topic=topic, records=[Record(value=b"%d" % one) for one in range(50)]),
        api.request(frame, correlation_id=60, records=[Record(value=b"x"), Record(value=b"y", partition=9)]),
        api.request(frame, correlation_id=62, topic="not a topic", records=[Record(value=b"z")]),
        api.request(frame, correlation_id=63, topic=topic),
        api.request(frame, correlation_id=64, records=[Record(value=b"later", delay=seconds(3600))]),
    ]
    first, second, third, fourth, fifth = api.invoke(frame)(iter(frames), timeout=30)
    assert (first.first_correlation_id, first.last_correlation_id) == (10, 59)
    assert [(one.first_correlation_id, one.count) for one in first.ranges] == [(10, 50)]
    assert [(one.first_correlation_id, one.count) for one in second.ranges] == [(60, 1)]
    assert [(one.first_correlation_id, one.error.code) for one in second.failures] == [(61, "partition_not_found")]
    assert [(one.first_correlation_id, one.error.code) for one in third.failures] == [(62, "invalid_topic")]
    assert [one.error.field for one in fourth.failures] == ["records"]
    assert fifth.ranges[0].slot
    assert fifth.ranges[0].deliver_at.seconds > time.time() + 3000


def test_messages_are_received_and_settled_in_every_way(api: Api, topic: str) -> None:
    api.publish(topic, *[b"%d" % number for number in range(8)], partition=0)
    taken = api.call("QueueService.Receive", topic=topic, group="g", limit=8, wait=seconds(1), visibility=seconds(60))
    receipts = [one.receipt_handle for one in taken.messages]
    assert [(one.value, one.delivery_count) for one in taken.messages][:2] == [(b"0", 1), (b"1", 1)]
    assert api.call("AckService.Ack", receipt_handle=receipts[0]).results[0].action == "acked"
    assert api.call("AckService.Ack", receipts=receipts[1:3], durable=True).succeeded == 2
    nacked = api.call("AckService.Nack", receipt_handle=receipts[3], delay=seconds(3600), error="busy").results[0]
    assert (nacked.action, nacked.next_visible_at_ms > 0) == ("requeued", True)
    rejected = api.call("AckService.Reject", receipts=receipts[4:5], error="no such customer").results[0]
    assert (rejected.dlq_topic, rejected.reason) == (f"{topic}.dlq", "rejected")
    extended = api.call("AckService.ExtendVisibility", receipt_handle=receipts[5], visibility=seconds(600)).results[0]
    assert extended.new_deadline_ms > 0
    mixed = api.call(
        "AckService.BatchAck",
        settlements=[
            queue_pb2.Settlement(receipt_handle=receipts[5], action=common_pb2.SETTLE_ACTION_ACK),
            queue_pb2.Settlement(receipt_handle=receipts[6], action=common_pb2.SETTLE_ACTION_RELEASE),
            queue_pb2.Settlement(receipt_handle="nonsense"),
        ],
    )
    assert [(one.success, one.action) for one in mixed.results] == [(True, "acked"), (True, "released"), (False, "")]
    assert mixed.results[2].error.field == "settlements[2].receipt_handle"
    again = api.refused("AckService.Ack", receipt_handle=receipts[0])
    assert again.code in {"NOT_FOUND", "FAILED_PRECONDITION"}
    figures = api.call("QueueService.GetReliabilityStats", topic=topic)
    assert (figures.ack_manager.acked_total, figures.queues[0].group) == (4, "g")
    lanes = api.call("QueueService.GetPriorityStats", topic=topic)
    assert lanes.topics[topic].partitions[0].groups[0].group == "g"


def test_work_streams_credit_messages_and_settlements(api: Api, topic: str) -> None:
    api.publish(topic, *[b"%d" % number for number in range(6)], partition=0)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stream = api.invoke("QueueService.Work")(iter(requests.get, None), timeout=30)
    method = "QueueService.Work"
    requests.put(api.request(method, start=queue_pb2.WorkStart(topic=topic, group="w", credit=2)))
    first = list(next(stream).messages.messages)
    assert [one.value for one in first] == [b"0", b"1"]
    requests.put(
        api.request(
            method,
            settle=queue_pb2.WorkSettle(correlation_id=7, acked=[first[0].receipt_handle, "nonsense"], credit=1),
        )
    )
    seen = {
        kind: getattr(answer, kind) for answer in (next(stream), next(stream)) for kind in (answer.WhichOneof("event"),)
    }
    settled = seen["settled"]
    assert (settled.correlation_id, settled.succeeded, len(settled.failures)) == (7, 1, 1)
    assert [one.value for one in seen["messages"].messages] == [b"2"]
    requests.put(api.request(method, credit=queue_pb2.WorkCredit(messages=10)))
    assert [one.value for one in next(stream).messages.messages] == [b"3", b"4", b"5"]
    requests.put(None)
    assert list(stream) == []
    # What was not settled is there for the next one at once.
    taken = api.call("QueueService.Receive", topic=topic, group="w", limit=10, wait=seconds(5))
    assert sorted(one.value for one in taken.messages) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_subscription_is_a_member_that_reads_commits_and_leaves(api: Api, topic: str) -> None:
    api.publish(topic, b"1", b"2", b"3", partition=0)
    fields = {"group": f"sub-{topic}", "topics": [topic], "client_id": "reader"}
    stream = api.invoke("ConsumeService.Subscribe")(api.request("ConsumeService.Subscribe", **fields), timeout=60)
    assignment, values = None, []
    for answer in stream:
        if answer.HasField("assignment"):
            assignment = answer.assignment
        values += [one.value for one in answer.batch.messages]
        if len(values) == 3 and assignment is not None:
            break
    assert values == [b"1", b"2", b"3"]
    assert {one.partition for one in assignment.partitions} == {0, 1}
    position = common_pb2.TopicPartitionOffset(topic=topic, partition=0, offset=2)
    committed = api.call(
        "OffsetService.CommitOffsets",
        group=fields["group"],
        member_id=assignment.member_id,
        generation=assignment.generation,
        offsets=[position],
    )
    assert committed.offsets[0].offset == 2
    assert len(api.call("GroupService.GetGroup", group=fields["group"]).members) == 1
    stream.cancel()
    deadline = time.monotonic() + 20
    while api.call("GroupService.GetGroup", group=fields["group"]).members:
        assert time.monotonic() < deadline, "the member did not leave with its stream"
        time.sleep(0.05)
    again = api.invoke("ConsumeService.Subscribe")(api.request("ConsumeService.Subscribe", **fields), timeout=60)
    assert next([one.value for one in answer.batch.messages] for answer in again if answer.HasField("batch")) == [b"3"]
    again.cancel()


def test_groups_join_beat_poll_commit_and_leave_eagerly(api: Api, topic: str) -> None:
    api.publish(topic, b"1", b"2", partition=1)
    group, stream = f"eager-{topic}", common_pb2.GROUP_MODE_STREAM
    member = api.call("GroupService.Join", group=group, topics=[topic], mode=stream, client_id="me")
    who = {"group": group, "member_id": member.member_id, "generation": member.generation}
    assert {(one.topic, one.partition) for one in member.partitions} == {(topic, 0), (topic, 1)}
    assert api.call("GroupService.Heartbeat", **who).status == "ok"
    assert len(api.call("GroupService.GetAssignment", **who).partitions) == 2
    polled = api.call("GroupService.Poll", **who, timeout_ms=5000)
    assert [one.value for one in polled.messages] == [b"1", b"2"]
    assert {(one.partition, one.offset) for one in polled.next_offsets} == {(0, 0), (1, 2)}
    positions = common_pb2.TopicPartitionOffsets(
        offsets=[common_pb2.TopicPartitionOffset(topic=topic, partition=at, offset=1) for at in (0, 1)]
    )
    assert api.call("GroupService.Poll", **who, timeout_ms=0, positions=positions).messages[0].value == b"2"
    api.call("OffsetService.CommitOffsets", **who, offsets=polled.next_offsets, metadata="note")
    fetched = {one.partition: one for one in api.call("OffsetService.FetchOffsets", group=group).offsets}
    assert (fetched[1].offset, fetched[1].lag, fetched[1].metadata) == (2, 0, "note")
    assert api.call("GroupService.Leave", group=group, member_id=member.member_id).status == "left"
    reset = api.call("OffsetService.ResetOffsets", group=group, position=common_pb2.START_POSITION_EARLIEST)
    assert {(one.partition, one.before, one.after) for one in reset.changes if one.partition == 1} == {(1, 2, 0)}
    moved = api.call("OffsetService.ResetOffsets", group=group, topic=topic, partitions=[1], offset=1, dry_run=True)
    assert [(one.partition, one.after) for one in moved.changes] == [(1, 1)]
    place = common_pb2.TopicPartition(topic=topic, partition=1)
    assert api.call("OffsetService.DeleteOffsets", group=group, partitions=[place]).status == "deleted"
    assert group in [one.id for one in api.call("GroupService.ListGroups").groups]
    assert api.call("GroupService.DeleteGroup", group=group).deleted


def test_groups_are_joined_cooperatively(api: Api, topic: str) -> None:
    group, shared = f"coop-{topic}", common_pb2.SHARING_SHARED
    first = api.call("GroupService.JoinCooperative", group=group, topics=[topic], tags={"host": "a"}).member
    who = {"group": group, "member_id": first.member_id}
    owned = common_pb2.TopicPartitions(partitions=first.partitions)
    beat = api.call("GroupService.HeartbeatCooperative", **who, generation=first.generation, owned_partitions=owned)
    assert len(beat.member.partitions) == 2
    shown = api.call("GroupService.GetCooperativeGroup", group=group)
    assert len(shown.member_assignments[first.member_id].partitions) == 2
    revoked = api.call(
        "GroupService.RevokePartitions",
        **who,
        generation=beat.member.generation,
        revoked_partitions=beat.member.partitions[:1],
    )
    assert revoked.status == "ok"
    assert api.call("GroupService.GetRebalanceStats", group=group).total_rebalances >= 1
    assert api.call("GroupService.GetRebalanceStats").total_rebalances >= 1
    assert api.call("GroupService.LeaveCooperative", **who).status == "left"
    again = api.call("GroupService.JoinCooperative", group=f"{group}-shared", topics=[topic], sharing=shared).member
    gone = api.call("GroupService.RemoveMember", group=f"{group}-shared", member=again.member_id)
    assert gone.status == "evicted"


def test_policies_of_queue_groups_are_shown_and_altered(api: Api, topic: str) -> None:
    api.call("QueueService.Receive", topic=topic, group=f"policy-{topic}")
    who = {"group": f"policy-{topic}"}
    altered = api.call("GroupService.AlterPolicy", **who, retries_max=0, backoff_jitter=0.5).policy
    assert (altered.effective.retries_max, altered.overrides["backoff_jitter"].number_value) == (0, 0.5)
    reset = api.call("GroupService.AlterPolicy", **who, reset=["retries_max"]).policy
    assert reset.effective.retries_max == 3
    assert api.call("GroupService.GetPolicy", **who, topic=topic).policy.effective.backoff_jitter == 0.5


def test_delayed_messages_are_listed_moved_cancelled_and_delivered(api: Api, topic: str) -> None:
    later = [Record(key=b"\xff", value=b"%d" % at, delay=seconds(3600), partition=0) for at in range(3)]
    results = api.call("PublishService.PublishBatch", topic=topic, records=later).results
    slots = [
        dict(zip(("slot_partition", "slot_offset"), map(int, one.slot.split("/")), strict=True)) for one in results
    ]
    assert all(one.delayed and one.deliver_at.seconds > time.time() + 3000 for one in results)
    listed = api.call("DelayService.ListDelayed", topic=topic, limit=2)
    assert (listed.count, listed.messages[0].state) == (2, "pending")
    shown = api.call("DelayService.GetDelayed", topic=topic, **slots[0])
    assert (shown.key, shown.value, shown.target_partition) == (b"\xff", b"0", 0)
    at = timestamp_pb2.Timestamp(seconds=int(time.time()) + 7200)
    moved = api.call("DelayService.RescheduleDelayed", topic=topic, **slots[0], deliver_at=at).message
    assert moved.deliver_at.seconds == at.seconds
    assert 7000 < moved.time_remaining.seconds <= 7200
    assert api.call("DelayService.CancelDelayed", topic=topic, **slots[1]).canceled
    api.call("DelayService.DeliverDelayedNow", topic=topic, **slots[2])
    (message,) = api.call("ConsumeService.ReadTopic", topic=topic, wait=seconds(20)).messages
    assert message.value == b"2"
    deadline = time.monotonic() + 20
    while api.call("DelayService.GetDelayStats").by_topic[topic].pending != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_schedules_are_created_shown_and_deleted(api: Api, topic: str) -> None:
    made = api.call(
        "ScheduleService.CreateSchedule",
        name="nightly",
        cron="0 3 * * *",
        topic=topic,
        value=b"\xffrun",
        headers=[Header(name="h", value=b"\xfe")],
        missed=common_pb2.MISSED_RUNS_SKIP,
    ).schedule
    assert (made.value, made.headers[0].value, made.missed) == (b"\xffrun", b"\xfe", common_pb2.MISSED_RUNS_SKIP)
    assert made.next_runs[0].seconds > time.time()
    assert api.call("ScheduleService.GetSchedule", name="nightly").schedule.cron == "0 3 * * *"
    assert [one.name for one in api.call("ScheduleService.ListSchedules").schedules] == ["nightly"]
    assert api.refused("ScheduleService.CreateSchedule", name="x", cron="never", topic=topic).code == "INVALID_ARGUMENT"
    assert api.call("ScheduleService.DeleteSchedule", name="nightly").deleted


def test_dead_letters_are_listed_redriven_and_purged(api: Api, topic: str) -> None:
    api.publish(topic, b"bad", b"worse", partition=0)
    taken = api.call("QueueService.Receive", topic=topic, group="d", limit=2).messages
    api.call("AckService.Reject", receipts=[one.receipt_handle for one in taken], error="broken")
    deadline = time.monotonic() + 20
    while len(letters := api.call("DeadLetterService.ListDeadLetters", topic=topic, group="d").letters) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert {(one.message.value, one.error, one.reason) for one in letters} == {
        (b"bad", "broken", "rejected"),
        (b"worse", "broken", "rejected"),
    }
    started = api.call("DeadLetterService.StartRedrive", topic=topic, headers=[Header(name="again", value=b"1")])
    assert started.redrive.topic == topic
    while api.call("DeadLetterService.GetRedrive", topic=topic).redrive.state == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert api.call("DeadLetterService.GetRedrive", topic=topic).redrive.redriven == 2
    back = api.call("QueueService.Receive", topic=topic, group="d", limit=2, wait=seconds(5)).messages
    assert ("again", b"1") in [(one.name, one.value) for one in back[0].headers]
    api.call("DeadLetterService.CancelRedrive", topic=topic)
    assert api.call("DeadLetterService.PurgeDeadLetters", topic=topic).dlq_topic == f"{topic}.dlq"


def test_transactions_show_all_or_nothing(api: Api, topic: str) -> None:
    name = f"tx-{topic}"
    producer = api.call("TransactionService.InitProducer", transactional_id=name)
    who = {"transactional_id": name, "producer_id": producer.producer_id, "epoch": producer.epoch}
    assert api.call("TransactionService.HeartbeatProducer", **who).status == "ok"
    begun = api.call("TransactionService.BeginTransaction", **who).transaction_id
    this = {**who, "transaction_id": begun}
    assert api.call("TransactionService.AddPartition", **this, topic=topic, partition=0).status == "added"
    published = api.call(
        "TransactionService.PublishInTransaction",
        **this,
        topic=topic,
        value=b"\xff",
        sequence=0,
        headers=[Header(name="h", value=b"\xfe")],
    )
    assert (published.partition, published.offset) == (0, 0)
    more = api.call(
        "PublishService.Publish",
        topic=topic,
        record=Record(value=b"2", partition=0),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=1,
        transaction_id=begun,
    )
    assert more.result.offset == 1
    api.publish(topic, b"job", partition=1)
    taken = api.call("QueueService.Receive", topic=topic, group="q", partition=1).messages
    api.call("TransactionService.AddSettlements", **this, receipts=[one.receipt_handle for one in taken])
    position = common_pb2.TopicPartitionOffset(topic=topic, partition=1, offset=1)
    api.call("TransactionService.AddOffsets", **this, group=f"o-{topic}", offsets=[position])
    assert name in [one.transactional_id for one in api.call("TransactionService.ListTransactions").transactions]
    assert api.call("TransactionService.DescribeTransaction", transactional_id=name).transaction.transaction_id == begun
    assert not api.call("ConsumeService.ReadPartition", topic=topic, partition=0).messages
    assert api.call("TransactionService.CommitTransaction", **this).status == "committed"
    values = [one.value for one in api.call("ConsumeService.ReadPartition", topic=topic, partition=0).messages]
    assert values == [b"\xff", b"2"]
    fetched = api.call("OffsetService.FetchOffsets", group=f"o-{topic}").offsets
    assert [one.offset for one in fetched if one.partition == 1] == [1]
    api.call("TransactionService.BeginTransaction", **who)
    assert api.call("TransactionService.AbortTransaction", **who).status == "aborted"
    api.call("TransactionService.BeginTransaction", **who)
    assert api.call("TransactionService.TerminateTransaction", transactional_id=name).status == "aborted"
    assert api.call("TransactionService.GetTransactionStats").committed >= 1


def test_an_external_coordinator_prepares_and_decides(api: Api, topic: str) -> None:
    who = {"writer": f"job-{topic}", "epoch": 0}
    opened = api.call("PreparedTransactionService.OpenParticipant", **who, task="a-0")
    second = api.call("PreparedTransactionService.OpenParticipant", **who, task="b-0")
    for at, one in enumerate((opened, second)):
        api.publish(
            topic,
            b"%d" % at,
            partition=at,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            sequence=0,
        )
    assert who["writer"] in [one.writer for one in api.call("PreparedTransactionService.ListWriters").writers]
    participant = {"task": "a-0", "producer_id": opened.producer_id, "producer_epoch": opened.producer_epoch}
    decided = api.call("PreparedTransactionService.CommitEpoch", **who, participants=[participant])
    assert (decided.committed, decided.aborted) == (1, 1)
    writer = api.call("PreparedTransactionService.GetWriter", writer=who["writer"]).writer
    assert [(one.first, one.last) for one in writer.committed_epochs] == [(0, 0)]
    api.call("PreparedTransactionService.OpenParticipant", writer=who["writer"], epoch=1, task="a-1")
    assert api.call("PreparedTransactionService.AbortEpoch", writer=who["writer"], epoch=1).aborted == 1


def test_the_node_and_its_cluster_are_described(api: Api, topic: str) -> None:
    api.publish(topic, b"1")
    version = api.call("NodeService.GetVersion")
    assert version.version
    assert version.started_at.seconds > 1_700_000_000
    assert api.call("NodeService.GetStats").topic_stats[topic].messages == 1
    assert api.call("NodeService.GetInstant").logs
    assert api.call("ClusterService.GetCluster").nodes[0].status == "alive"
    assert list(api.call("PipelineService.ListPipelines").pipelines) == []


def test_schemas_are_registered_compared_and_deleted(api: Api) -> None:
    from goqueue.protos import schemas_pb2

    subject = "people-value"
    text = '{"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}'
    wider = text.replace("}]}", '}, {"name": "age", "type": "int", "default": 0}]}')
    metadata = schemas_pb2.SchemaMetadata(properties={"owner": "ada"}, tags={"name": {"words": ["PII"]}})
    rules = schemas_pb2.SchemaRuleSet(
        domain_rules=[
            schemas_pb2.SchemaRule(
                name="r", kind="CONDITION", mode="WRITE", type="CEL", expr="true", on_failure="ERROR"
            )
        ]
    )
    first = api.call(
        "SchemaService.RegisterSchema", subject=subject, schema=text, metadata=metadata, rule_set=rules
    ).schema
    known = api.call("SchemaService.GetSchema", schema_id=first.id).schema
    assert '"Person"' in known.schema
    shown = api.call("SchemaService.GetVersionOfSubject", subject=subject, version="latest").schema
    assert (shown.id, shown.version, shown.metadata.properties["owner"]) == (first.id, 1, "ada")
    assert (shown.metadata.tags["name"].words, shown.rule_set.domain_rules[0].on_failure) == (["PII"], "ERROR")
    assert (
        api.call("SchemaService.GetVersionByMetadata", subject=subject, properties={"owner": "ada"}).schema.version == 1
    )
    assert (
        api.call(
            "SchemaService.LookupSchema", subject=subject, schema=text, metadata=metadata, rule_set=rules
        ).schema.version
        == 1
    )
    tested = api.call("SchemaService.TestCompatibility", subject=subject, version="latest", schema=wider)
    assert tested.is_compatible
    bad = text.replace('"string"', '"int"')
    refused = api.call("SchemaService.TestCompatibility", subject=subject, schema=bad, verbose=True)
    assert (refused.is_compatible, bool(refused.messages)) == (False, True)
    assert api.refused("SchemaService.RegisterSchema", subject=subject, schema=bad).details["ErrorInfo"].reason
    api.call("SchemaService.RegisterSchema", subject=subject, schema=wider)
    assert list(api.call("SchemaService.ListVersions", subject=subject).versions) == [1, 2]
    assert list(api.call("SchemaService.ListSubjects").subjects) == [subject]
    assert len(api.call("SchemaService.ListSchemas").schemas) == 2
    assert "AVRO" in api.call("SchemaService.ListSchemaTypes").types
    assert list(api.call("SchemaService.ListSchemaSubjects", schema_id=first.id).subjects) == [subject]
    assert api.call("SchemaService.ListSchemaVersions", schema_id=first.id).versions[0].version == 1
    assert list(api.call("SchemaService.ListReferences", subject=subject, version="1").ids) == []
    guid = known.guid or shown.guid
    assert api.call("SchemaService.GetSchemaByGuid", guid=guid).schema.schema
    assert api.call("SchemaService.ListGuidIds", guid=guid).ids[0].id == first.id
    assert api.call("SchemaService.SetConfig", subject=subject, compatibility="FULL").compatibility == "FULL"
    assert api.call("SchemaService.GetConfig", subject=subject).compatibility_level == "FULL"
    assert api.call("SchemaService.GetConfig").compatibility_level == "BACKWARD"
    api.call("SchemaService.DeleteConfig", subject=subject)
    assert api.call("SchemaService.SetMode", subject=subject, mode="READONLY").mode == "READONLY"
    assert api.call("SchemaService.GetMode", subject=subject).mode == "READONLY"
    api.call("SchemaService.DeleteMode", subject=subject)
    assert api.call("SchemaService.GetMode").mode == "READWRITE"
    assert "." in api.call("SchemaService.ListContexts").contexts
    assert api.call("SchemaService.GetRegistryStats").subject_count == 1
    assert api.call("SchemaService.DeleteVersion", subject=subject, version="1").version == 1
    assert list(api.call("SchemaService.DeleteSubject", subject=subject).versions) == [2]
    assert api.refused("SchemaService.ListVersions", subject=subject).code == "NOT_FOUND"


def test_the_story_of_a_message_is_told(api: Api, topic: str) -> None:
    api.publish(topic, b"1", partition=0)
    (message,) = api.call("QueueService.Receive", topic=topic, group="g").messages
    api.call("AckService.Ack", receipt_handle=message.receipt_handle)
    story = api.call("TraceService.GetStory", topic=topic, partition=0, offset=0)
    assert (story.topic, story.offset, story.start_time.seconds > 0) == (topic, 0, True)
    assert story.events
    assert api.call("TraceService.ListTraces", limit=10).total >= 1
    found = api.call("TraceService.SearchTraces", topic=topic, start_ms=0)
    assert [one.offset for one in found.traces] == [0]
    assert api.call("TraceService.GetTrace", trace_id=story.trace_id).spans
    assert api.call("TraceService.GetTraceStats").enabled


def test_every_method_was_called(api: Api) -> None:
    """Runs last in this module: a method that no test above calls is not proven to work."""
    assert METHODS - api.called == set()
