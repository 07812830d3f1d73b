import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from goqueue.protos import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AckRequest(_message.Message):
    __slots__ = ("receipt_handle", "receipts", "durable")
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    receipt_handle: str
    receipts: _containers.RepeatedScalarFieldContainer[str]
    durable: bool
    def __init__(self, receipt_handle: _Optional[str] = ..., receipts: _Optional[_Iterable[str]] = ..., durable: _Optional[bool] = ...) -> None: ...

class SettledReceipt(_message.Message):
    __slots__ = ("success", "receipt_handle", "action", "topic", "partition", "offset", "delivery_count", "committed_offset", "offset_advanced", "in_flight_count", "next_visible_at_ms", "dlq_topic", "reason", "new_deadline_ms", "extended_by_ms", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    OFFSET_ADVANCED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEXT_VISIBLE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NEW_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_BY_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: bool
    receipt_handle: str
    action: str
    topic: str
    partition: int
    offset: int
    delivery_count: int
    committed_offset: int
    offset_advanced: bool
    in_flight_count: int
    next_visible_at_ms: int
    dlq_topic: str
    reason: str
    new_deadline_ms: int
    extended_by_ms: int
    error: _common_pb2.ErrorDetail
    def __init__(self, success: _Optional[bool] = ..., receipt_handle: _Optional[str] = ..., action: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., delivery_count: _Optional[int] = ..., committed_offset: _Optional[int] = ..., offset_advanced: _Optional[bool] = ..., in_flight_count: _Optional[int] = ..., next_visible_at_ms: _Optional[int] = ..., dlq_topic: _Optional[str] = ..., reason: _Optional[str] = ..., new_deadline_ms: _Optional[int] = ..., extended_by_ms: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("results", "succeeded", "failed")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettledReceipt]
    succeeded: int
    failed: int
    def __init__(self, results: _Optional[_Iterable[_Union[SettledReceipt, _Mapping]]] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class NackRequest(_message.Message):
    __slots__ = ("receipt_handle", "receipts", "durable", "error", "delay")
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    receipt_handle: str
    receipts: _containers.RepeatedScalarFieldContainer[str]
    durable: bool
    error: str
    delay: _duration_pb2.Duration
    def __init__(self, receipt_handle: _Optional[str] = ..., receipts: _Optional[_Iterable[str]] = ..., durable: _Optional[bool] = ..., error: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class NackResponse(_message.Message):
    __slots__ = ("results", "succeeded", "failed")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettledReceipt]
    succeeded: int
    failed: int
    def __init__(self, results: _Optional[_Iterable[_Union[SettledReceipt, _Mapping]]] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class RejectRequest(_message.Message):
    __slots__ = ("receipt_handle", "receipts", "durable", "error")
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    receipt_handle: str
    receipts: _containers.RepeatedScalarFieldContainer[str]
    durable: bool
    error: str
    def __init__(self, receipt_handle: _Optional[str] = ..., receipts: _Optional[_Iterable[str]] = ..., durable: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class RejectResponse(_message.Message):
    __slots__ = ("results", "succeeded", "failed")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettledReceipt]
    succeeded: int
    failed: int
    def __init__(self, results: _Optional[_Iterable[_Union[SettledReceipt, _Mapping]]] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class ExtendVisibilityRequest(_message.Message):
    __slots__ = ("receipt_handle", "receipts", "durable", "extension_seconds", "visibility")
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    receipt_handle: str
    receipts: _containers.RepeatedScalarFieldContainer[str]
    durable: bool
    extension_seconds: int
    visibility: _duration_pb2.Duration
    def __init__(self, receipt_handle: _Optional[str] = ..., receipts: _Optional[_Iterable[str]] = ..., durable: _Optional[bool] = ..., extension_seconds: _Optional[int] = ..., visibility: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExtendVisibilityResponse(_message.Message):
    __slots__ = ("results", "succeeded", "failed")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettledReceipt]
    succeeded: int
    failed: int
    def __init__(self, results: _Optional[_Iterable[_Union[SettledReceipt, _Mapping]]] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class GetReliabilityStatsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class AckManagerStats(_message.Message):
    __slots__ = ("delivered_total", "redelivered_total", "acked_total", "nacked_total", "rejected_total", "released_total", "waiting_for_retry", "consumers")
    DELIVERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ACKED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    NACKED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REJECTED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_RETRY_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    delivered_total: int
    redelivered_total: int
    acked_total: int
    nacked_total: int
    rejected_total: int
    released_total: int
    waiting_for_retry: int
    consumers: int
    def __init__(self, delivered_total: _Optional[int] = ..., redelivered_total: _Optional[int] = ..., acked_total: _Optional[int] = ..., nacked_total: _Optional[int] = ..., rejected_total: _Optional[int] = ..., released_total: _Optional[int] = ..., waiting_for_retry: _Optional[int] = ..., consumers: _Optional[int] = ...) -> None: ...

class VisibilityStats(_message.Message):
    __slots__ = ("in_flight", "extended_total", "expired_total")
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    in_flight: int
    extended_total: int
    expired_total: int
    def __init__(self, in_flight: _Optional[int] = ..., extended_total: _Optional[int] = ..., expired_total: _Optional[int] = ...) -> None: ...

class DeadLetterStats(_message.Message):
    __slots__ = ("dead_lettered_total", "failures_total", "too_old_total", "unreadable_total", "dying", "by_topic")
    class ByTopicEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    DEAD_LETTERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    FAILURES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    TOO_OLD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    BY_TOPIC_FIELD_NUMBER: _ClassVar[int]
    dead_lettered_total: int
    failures_total: int
    too_old_total: int
    unreadable_total: int
    dying: int
    by_topic: _containers.ScalarMap[str, int]
    def __init__(self, dead_lettered_total: _Optional[int] = ..., failures_total: _Optional[int] = ..., too_old_total: _Optional[int] = ..., unreadable_total: _Optional[int] = ..., dying: _Optional[int] = ..., by_topic: _Optional[_Mapping[str, int]] = ...) -> None: ...

class QueueFigures(_message.Message):
    __slots__ = ("group", "topic", "partition", "in_flight", "waiting", "dying", "outstanding", "at_bound", "consumers")
    class ConsumersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DYING_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    AT_BOUND_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    in_flight: int
    waiting: int
    dying: int
    outstanding: int
    at_bound: bool
    consumers: _containers.ScalarMap[str, int]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., in_flight: _Optional[int] = ..., waiting: _Optional[int] = ..., dying: _Optional[int] = ..., outstanding: _Optional[int] = ..., at_bound: _Optional[bool] = ..., consumers: _Optional[_Mapping[str, int]] = ...) -> None: ...

class GetReliabilityStatsResponse(_message.Message):
    __slots__ = ("ack_manager", "visibility_tracker", "dlq", "queues")
    ACK_MANAGER_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TRACKER_FIELD_NUMBER: _ClassVar[int]
    DLQ_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    ack_manager: AckManagerStats
    visibility_tracker: VisibilityStats
    dlq: DeadLetterStats
    queues: _containers.RepeatedCompositeFieldContainer[QueueFigures]
    def __init__(self, ack_manager: _Optional[_Union[AckManagerStats, _Mapping]] = ..., visibility_tracker: _Optional[_Union[VisibilityStats, _Mapping]] = ..., dlq: _Optional[_Union[DeadLetterStats, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[QueueFigures, _Mapping]]] = ...) -> None: ...

class GetPriorityStatsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class LaneFigures(_message.Message):
    __slots__ = ("ready", "in_flight", "delivered_total", "delivered_per_second", "enqueued_total", "enqueued_per_second", "last_served_at_ms", "waiting_since_ms", "waiting_ms")
    READY_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    LAST_SERVED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    WAITING_SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    WAITING_MS_FIELD_NUMBER: _ClassVar[int]
    ready: int
    in_flight: int
    delivered_total: int
    delivered_per_second: float
    enqueued_total: int
    enqueued_per_second: float
    last_served_at_ms: int
    waiting_since_ms: int
    waiting_ms: int
    def __init__(self, ready: _Optional[int] = ..., in_flight: _Optional[int] = ..., delivered_total: _Optional[int] = ..., delivered_per_second: _Optional[float] = ..., enqueued_total: _Optional[int] = ..., enqueued_per_second: _Optional[float] = ..., last_served_at_ms: _Optional[int] = ..., waiting_since_ms: _Optional[int] = ..., waiting_ms: _Optional[int] = ...) -> None: ...

class PartitionLanes(_message.Message):
    __slots__ = ("group", "lanes")
    class LanesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: LaneFigures
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[LaneFigures, _Mapping]] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    group: str
    lanes: _containers.MessageMap[str, LaneFigures]
    def __init__(self, group: _Optional[str] = ..., lanes: _Optional[_Mapping[str, LaneFigures]] = ...) -> None: ...

class PartitionLanesList(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[PartitionLanes]
    def __init__(self, groups: _Optional[_Iterable[_Union[PartitionLanes, _Mapping]]] = ...) -> None: ...

class TopicLanes(_message.Message):
    __slots__ = ("partitions",)
    class PartitionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: PartitionLanesList
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[PartitionLanesList, _Mapping]] = ...) -> None: ...
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.MessageMap[int, PartitionLanesList]
    def __init__(self, partitions: _Optional[_Mapping[int, PartitionLanesList]] = ...) -> None: ...

class GetPriorityStatsResponse(_message.Message):
    __slots__ = ("ready_by_priority", "in_flight_by_priority", "delivered_by_priority", "topics")
    class TopicsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TopicLanes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TopicLanes, _Mapping]] = ...) -> None: ...
    READY_BY_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_BY_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_BY_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ready_by_priority: _containers.RepeatedScalarFieldContainer[int]
    in_flight_by_priority: _containers.RepeatedScalarFieldContainer[int]
    delivered_by_priority: _containers.RepeatedScalarFieldContainer[int]
    topics: _containers.MessageMap[str, TopicLanes]
    def __init__(self, ready_by_priority: _Optional[_Iterable[int]] = ..., in_flight_by_priority: _Optional[_Iterable[int]] = ..., delivered_by_priority: _Optional[_Iterable[int]] = ..., topics: _Optional[_Mapping[str, TopicLanes]] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("topic", "group", "client_id", "limit", "wait", "visibility", "partition", "max_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    client_id: str
    limit: int
    wait: _duration_pb2.Duration
    visibility: _duration_pb2.Duration
    partition: int
    max_bytes: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., client_id: _Optional[str] = ..., limit: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., visibility: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., partition: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ReceiveResponse(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("receipt_handle", "action", "delay", "error", "visibility")
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    receipt_handle: str
    action: _common_pb2.SettleAction
    delay: _duration_pb2.Duration
    error: str
    visibility: _duration_pb2.Duration
    def __init__(self, receipt_handle: _Optional[str] = ..., action: _Optional[_Union[_common_pb2.SettleAction, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., error: _Optional[str] = ..., visibility: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class BatchAckRequest(_message.Message):
    __slots__ = ("settlements", "durable")
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    durable: bool
    def __init__(self, settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ..., durable: _Optional[bool] = ...) -> None: ...

class BatchAckResponse(_message.Message):
    __slots__ = ("results", "succeeded", "failed")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettledReceipt]
    succeeded: int
    failed: int
    def __init__(self, results: _Optional[_Iterable[_Union[SettledReceipt, _Mapping]]] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class WorkStart(_message.Message):
    __slots__ = ("topic", "group", "client_id", "partition", "visibility", "credit", "max_bytes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    client_id: str
    partition: int
    visibility: _duration_pb2.Duration
    credit: int
    max_bytes: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., client_id: _Optional[str] = ..., partition: _Optional[int] = ..., visibility: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., credit: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class WorkCredit(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class WorkSettle(_message.Message):
    __slots__ = ("correlation_id", "acked", "settlements", "durable", "credit")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    acked: _containers.RepeatedScalarFieldContainer[str]
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    durable: bool
    credit: int
    def __init__(self, correlation_id: _Optional[int] = ..., acked: _Optional[_Iterable[str]] = ..., settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ..., durable: _Optional[bool] = ..., credit: _Optional[int] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("start", "credit", "settle")
    START_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    start: WorkStart
    credit: WorkCredit
    settle: WorkSettle
    def __init__(self, start: _Optional[_Union[WorkStart, _Mapping]] = ..., credit: _Optional[_Union[WorkCredit, _Mapping]] = ..., settle: _Optional[_Union[WorkSettle, _Mapping]] = ...) -> None: ...

class WorkMessages(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ...) -> None: ...

class WorkSettled(_message.Message):
    __slots__ = ("correlation_id", "succeeded", "failures")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    succeeded: int
    failures: _containers.RepeatedCompositeFieldContainer[SettledReceipt]
    def __init__(self, correlation_id: _Optional[int] = ..., succeeded: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[SettledReceipt, _Mapping]]] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("messages", "settled")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    messages: WorkMessages
    settled: WorkSettled
    def __init__(self, messages: _Optional[_Union[WorkMessages, _Mapping]] = ..., settled: _Optional[_Union[WorkSettled, _Mapping]] = ...) -> None: ...
