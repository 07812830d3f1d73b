"""Which operation answers which method: every plain method of the API, in one line each.

A row names the method and the operation, by the method and path under which HTTP has it. `wrap` names the field of
the response that holds the reply. `adapt` mends the request where a proto says something that JSON says differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Adapt = Callable[[Any, dict[str, Any]], None]


class Row(NamedTuple):
    """One method and its operation."""

    service: str
    method: str
    operation: str
    wrap: str | None = None
    adapt: Adapt | None = None
    # The operation of a request that leaves out what the other's path needs.
    without: str | None = None
    # Fields of the response that the reply has under another name.
    renamed: Mapping[str, str] = MappingProxyType({})


def _reset_config(request: Any, body: dict[str, Any]) -> None:
    body.setdefault("config", {}).update(dict.fromkeys(request.reset_config))


def _reset_policy(request: Any, body: dict[str, Any]) -> None:
    body.update(dict.fromkeys(request.reset))


def _reset_to(request: Any, body: dict[str, Any]) -> None:
    said = request.WhichOneof("to")
    if said == "position":
        body["to"] = {1: "earliest", 2: "latest"}.get(request.position, "")
    elif said is not None:
        body["to"] = {said.removesuffix("_ms"): getattr(request, said)}
    # What a member of the oneof is called may be a field of its own elsewhere.
    for name in ("position", "timestamp", "offset", "shift"):
        body.pop(name, None)
    if request.partitions:
        body["partitions"] = list(request.partitions)


def _partitions_by_topic(request: Any, body: dict[str, Any]) -> None:
    offsets: dict[str, list[int]] = {}
    for one in request.partitions:
        offsets.setdefault(one.topic, []).append(one.partition)
    body["offsets"] = offsets


def _counted(request: Any, body: dict[str, Any]) -> None:
    body["participants"] = [
        {"task": one.task, "producer_id": one.producer_id, "producer_epoch": one.producer_epoch}
        if one.HasField("producer_id")
        else one.task
        for one in request.participants
    ]


def _offset_pairs(request: Any, query: dict[str, Any]) -> None:
    if request.offsets:
        query["offsets"] = ",".join(f"{at}:{offset}" for at, offset in request.offsets.items())


_SLOT = "/topics/{topic}/delayed/{slot_partition}/{slot_offset}"
_PARTITION = "/topics/{topic}/partitions/{partition}"

ROWS = (
    Row("TopicService", "CreateTopic", "POST /topics"),
    Row("TopicService", "ListTopics", "GET /topics"),
    Row("TopicService", "GetTopic", "GET /topics/{topic}", "topic"),
    Row("TopicService", "EnsureTopic", "PUT /topics/{topic}", "topic"),
    Row("TopicService", "AlterTopic", "PATCH /topics/{topic}", "topic", _reset_config),
    Row("TopicService", "DeleteTopic", "DELETE /topics/{topic}"),
    Row("TopicService", "ListPartitions", "GET /topics/{topic}/partitions"),
    Row("TopicService", "TruncatePartition", f"POST {_PARTITION}/truncate"),
    Row("ConsumeService", "ReadTopic", "GET /topics/{topic}/messages", None, _offset_pairs),
    Row("ConsumeService", "ReadPartition", f"GET {_PARTITION}/messages"),
    Row("ConsumeService", "ReadByPriority", f"GET {_PARTITION}/messages/priority", None, _offset_pairs),
    Row("ConsumeService", "ReadFairly", f"GET {_PARTITION}/messages/fair", None, _offset_pairs),
    Row("ConsumeService", "FindOffset", f"GET {_PARTITION}/offset"),
    Row("AckService", "Ack", "POST /messages/ack"),
    Row("AckService", "Nack", "POST /messages/nack"),
    Row("AckService", "Reject", "POST /messages/reject"),
    Row("AckService", "ExtendVisibility", "POST /messages/visibility"),
    Row("QueueService", "GetReliabilityStats", "GET /reliability/stats"),
    Row("QueueService", "GetPriorityStats", "GET /priority/stats"),
    Row("GroupService", "ListGroups", "GET /groups"),
    Row("GroupService", "GetGroup", "GET /groups/{group}"),
    Row("GroupService", "DeleteGroup", "DELETE /groups/{group}"),
    Row("GroupService", "Join", "POST /groups/{group}/join"),
    Row("GroupService", "Heartbeat", "POST /groups/{group}/heartbeat"),
    Row("GroupService", "Leave", "POST /groups/{group}/leave"),
    Row("GroupService", "RemoveMember", "DELETE /groups/{group}/members/{member}"),
    Row("GroupService", "Poll", "POST /groups/{group}/poll"),
    Row("GroupService", "GetAssignment", "GET /groups/{group}/assignment"),
    Row("GroupService", "JoinCooperative", "POST /groups/{group}/join/cooperative", "member"),
    Row("GroupService", "HeartbeatCooperative", "POST /groups/{group}/heartbeat/cooperative", "member"),
    Row("GroupService", "RevokePartitions", "POST /groups/{group}/revoke"),
    Row("GroupService", "LeaveCooperative", "POST /groups/{group}/leave/cooperative"),
    Row("GroupService", "GetCooperativeGroup", "GET /groups/{group}/cooperative"),
    Row(
        "GroupService",
        "GetRebalanceStats",
        "GET /groups/{group}/rebalance/stats",
        without="GET /rebalance/stats",
    ),
    Row("GroupService", "GetPolicy", "GET /groups/{group}/policy", "policy"),
    Row("GroupService", "AlterPolicy", "PATCH /groups/{group}/policy", "policy", _reset_policy),
    Row("OffsetService", "CommitOffsets", "POST /groups/{group}/offsets"),
    Row("OffsetService", "FetchOffsets", "GET /groups/{group}/offsets", renamed={"offsets": "topics"}),
    Row("OffsetService", "ResetOffsets", "POST /groups/{group}/offsets/reset", None, _reset_to),
    Row("OffsetService", "DeleteOffsets", "DELETE /groups/{group}/offsets", None, _partitions_by_topic),
    Row("DelayService", "ListDelayed", "GET /topics/{topic}/delayed"),
    Row("DelayService", "GetDelayed", f"GET {_SLOT}"),
    Row("DelayService", "CancelDelayed", f"DELETE {_SLOT}"),
    Row("DelayService", "RescheduleDelayed", f"PATCH {_SLOT}", "message"),
    Row("DelayService", "DeliverDelayedNow", f"POST {_SLOT}/now", "message"),
    Row("DelayService", "GetDelayStats", "GET /delay/stats"),
    Row("ScheduleService", "CreateSchedule", "POST /schedules", "schedule"),
    Row("ScheduleService", "ListSchedules", "GET /schedules"),
    Row("ScheduleService", "GetSchedule", "GET /schedules/{name}", "schedule"),
    Row("ScheduleService", "DeleteSchedule", "DELETE /schedules/{name}"),
    Row("DeadLetterService", "ListDeadLetters", "GET /topics/{topic}/dlq"),
    Row("DeadLetterService", "PurgeDeadLetters", "DELETE /topics/{topic}/dlq"),
    Row("DeadLetterService", "StartRedrive", "POST /topics/{topic}/dlq/redrive", "redrive"),
    Row("DeadLetterService", "GetRedrive", "GET /topics/{topic}/dlq/redrive", "redrive"),
    Row("DeadLetterService", "CancelRedrive", "DELETE /topics/{topic}/dlq/redrive", "redrive"),
    Row("TransactionService", "InitProducer", "POST /producers/init"),
    Row("TransactionService", "HeartbeatProducer", "POST /producers/{producer_id}/heartbeat"),
    Row("TransactionService", "BeginTransaction", "POST /transactions/begin"),
    Row("TransactionService", "PublishInTransaction", "POST /transactions/publish"),
    Row("TransactionService", "AddPartition", "POST /transactions/add-partition"),
    Row("TransactionService", "AddOffsets", "POST /transactions/offsets"),
    Row("TransactionService", "AddSettlements", "POST /transactions/ack"),
    Row("TransactionService", "CommitTransaction", "POST /transactions/commit"),
    Row("TransactionService", "AbortTransaction", "POST /transactions/abort"),
    Row("TransactionService", "ListTransactions", "GET /transactions"),
    Row("TransactionService", "GetTransactionStats", "GET /transactions/stats"),
    Row("TransactionService", "DescribeTransaction", "GET /transactions/{transactional_id}", "transaction"),
    Row("TransactionService", "TerminateTransaction", "POST /transactions/{transactional_id}/abort"),
    Row("PreparedTransactionService", "OpenParticipant", "POST /prepared/{writer}/{epoch}/participants"),
    Row("PreparedTransactionService", "CommitEpoch", "POST /prepared/{writer}/{epoch}/commit", None, _counted),
    Row("PreparedTransactionService", "AbortEpoch", "POST /prepared/{writer}/{epoch}/abort"),
    Row("PreparedTransactionService", "ListWriters", "GET /prepared"),
    Row("PreparedTransactionService", "GetWriter", "GET /prepared/{writer}", "writer"),
    Row("NodeService", "GetVersion", "GET /version"),
    Row("NodeService", "GetStats", "GET /stats"),
    Row("NodeService", "GetInstant", "GET /admin/instant"),
    Row("ClusterService", "GetCluster", "GET /cluster"),
    Row("PipelineService", "ListPipelines", "GET /pipelines"),
)
# Operations whose method is written by hand, with the method.
BY_HAND = {
    "POST /topics/{topic}/messages": ("PublishService.Publish", "PublishService.PublishBatch"),
    "POST /topics/{topic}/receive": ("QueueService.Receive",),
    "GET /topics/{topic}/messages/stream": ("ConsumeService.Consume",),
    # Both forms of a poll are one method.
    "GET /groups/{group}/poll": ("GroupService.Poll",),
}
