"""Which operation answers which method: every plain method of the API, in one line each.

A row names the method and the operation, by the method and path under which HTTP has it. `wrap` names the field of
the response that holds the reply. The server and the client read the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Row(NamedTuple):
    """One method and its operation."""

    service: str
    method: str
    operation: str
    wrap: str | None = None
    # The operation of a request that leaves out what the other's path needs.
    without: str | None = None
    # Fields of the response that the reply has under another name.
    renamed: Mapping[str, str] = MappingProxyType({})


_SLOT = "/topics/{topic}/delayed/{slot_partition}/{slot_offset}"
_SUBJECT = "/subjects/{subject}"
_PARTITION = "/topics/{topic}/partitions/{partition}"

ROWS = (
    Row("TopicService", "CreateTopic", "POST /topics"),
    Row("TopicService", "ListTopics", "GET /topics"),
    Row("TopicService", "GetTopic", "GET /topics/{topic}", "topic"),
    Row("TopicService", "EnsureTopic", "PUT /topics/{topic}", "topic"),
    Row("TopicService", "AlterTopic", "PATCH /topics/{topic}", "topic"),
    Row("TopicService", "DeleteTopic", "DELETE /topics/{topic}"),
    Row("TopicService", "ListPartitions", "GET /topics/{topic}/partitions"),
    Row("TopicService", "TruncatePartition", f"POST {_PARTITION}/truncate"),
    Row("ConsumeService", "ReadTopic", "GET /topics/{topic}/messages"),
    Row("ConsumeService", "ReadPartition", f"GET {_PARTITION}/messages"),
    Row("ConsumeService", "ReadByPriority", f"GET {_PARTITION}/messages/priority"),
    Row("ConsumeService", "ReadFairly", f"GET {_PARTITION}/messages/fair"),
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
    Row("GroupService", "AlterPolicy", "PATCH /groups/{group}/policy", "policy"),
    Row("OffsetService", "CommitOffsets", "POST /groups/{group}/offsets"),
    Row("OffsetService", "FetchOffsets", "GET /groups/{group}/offsets", renamed={"offsets": "topics"}),
    Row("OffsetService", "ResetOffsets", "POST /groups/{group}/offsets/reset"),
    Row("OffsetService", "DeleteOffsets", "DELETE /groups/{group}/offsets"),
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
    Row("PreparedTransactionService", "CommitEpoch", "POST /prepared/{writer}/{epoch}/commit"),
    Row("PreparedTransactionService", "AbortEpoch", "POST /prepared/{writer}/{epoch}/abort"),
    Row("PreparedTransactionService", "ListWriters", "GET /prepared"),
    Row("PreparedTransactionService", "GetWriter", "GET /prepared/{writer}", "writer"),
    Row("TraceService", "GetStory", f"GET {_PARTITION}/messages/{{offset}}/story"),
    Row("TraceService", "ListTraces", "GET /traces"),
    Row("TraceService", "SearchTraces", "GET /traces/search"),
    Row("TraceService", "GetTrace", "GET /traces/{trace_id}"),
    Row("TraceService", "GetTraceStats", "GET /traces/stats"),
    Row("SchemaService", "ListSubjects", "GET /subjects"),
    Row("SchemaService", "RegisterSchema", f"POST {_SUBJECT}/versions", "schema"),
    Row("SchemaService", "LookupSchema", f"POST {_SUBJECT}", "schema"),
    Row("SchemaService", "DeleteSubject", f"DELETE {_SUBJECT}"),
    Row("SchemaService", "GetVersionByMetadata", f"GET {_SUBJECT}/metadata", "schema"),
    Row("SchemaService", "ListVersions", f"GET {_SUBJECT}/versions"),
    Row("SchemaService", "GetVersionOfSubject", f"GET {_SUBJECT}/versions/{{version}}", "schema"),
    Row("SchemaService", "DeleteVersion", f"DELETE {_SUBJECT}/versions/{{version}}"),
    Row("SchemaService", "ListReferences", f"GET {_SUBJECT}/versions/{{version}}/referencedby"),
    Row("SchemaService", "ListSchemas", "GET /schemas"),
    Row("SchemaService", "ListSchemaTypes", "GET /schemas/types"),
    Row("SchemaService", "GetSchema", "GET /schemas/ids/{schema_id}", "schema"),
    Row("SchemaService", "ListSchemaSubjects", "GET /schemas/ids/{schema_id}/subjects"),
    Row("SchemaService", "ListSchemaVersions", "GET /schemas/ids/{schema_id}/versions"),
    Row("SchemaService", "GetSchemaByGuid", "GET /schemas/guids/{guid}", "schema"),
    Row("SchemaService", "ListGuidIds", "GET /schemas/guids/{guid}/ids"),
    Row(
        "SchemaService",
        "TestCompatibility",
        f"POST /compatibility{_SUBJECT}/versions/{{version}}",
        without=f"POST /compatibility{_SUBJECT}/versions",
    ),
    Row("SchemaService", "GetConfig", "GET /config/{subject}", without="GET /config"),
    Row("SchemaService", "SetConfig", "PUT /config/{subject}", without="PUT /config"),
    Row("SchemaService", "DeleteConfig", "DELETE /config/{subject}", without="DELETE /config"),
    Row("SchemaService", "GetMode", "GET /mode/{subject}", without="GET /mode"),
    Row("SchemaService", "SetMode", "PUT /mode/{subject}", without="PUT /mode"),
    Row("SchemaService", "DeleteMode", "DELETE /mode/{subject}", without="DELETE /mode"),
    Row("SchemaService", "ListContexts", "GET /contexts"),
    Row("SchemaService", "GetRegistryStats", "GET /schemas/stats"),
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
    # The same schemas as text alone.
    "GET /subjects/{subject}/versions/{version}/schema": ("SchemaService.GetVersionOfSubject",),
    "GET /schemas/ids/{schema_id}/schema": ("SchemaService.GetSchema",),
    # Both forms of a poll are one method.
    "GET /groups/{group}/poll": ("GroupService.Poll",),
}
