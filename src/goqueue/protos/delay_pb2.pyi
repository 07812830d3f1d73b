import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from goqueue.protos import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListDelayedRequest(_message.Message):
    __slots__ = ("topic", "limit", "skip", "due_before")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    limit: int
    skip: int
    due_before: _timestamp_pb2.Timestamp
    def __init__(self, topic: _Optional[str] = ..., limit: _Optional[int] = ..., skip: _Optional[int] = ..., due_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DelayedRow(_message.Message):
    __slots__ = ("topic", "slot", "deliver_at", "time_remaining", "state")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    TIME_REMAINING_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    slot: str
    deliver_at: _timestamp_pb2.Timestamp
    time_remaining: _duration_pb2.Duration
    state: str
    def __init__(self, topic: _Optional[str] = ..., slot: _Optional[str] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., time_remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., state: _Optional[str] = ...) -> None: ...

class ListDelayedResponse(_message.Message):
    __slots__ = ("topic", "messages", "count", "limit", "skip")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SKIP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages: _containers.RepeatedCompositeFieldContainer[DelayedRow]
    count: int
    limit: int
    skip: int
    def __init__(self, topic: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[DelayedRow, _Mapping]]] = ..., count: _Optional[int] = ..., limit: _Optional[int] = ..., skip: _Optional[int] = ...) -> None: ...

class GetDelayedRequest(_message.Message):
    __slots__ = ("topic", "slot_partition", "slot_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_PARTITION_FIELD_NUMBER: _ClassVar[int]
    SLOT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    slot_partition: int
    slot_offset: int
    def __init__(self, topic: _Optional[str] = ..., slot_partition: _Optional[int] = ..., slot_offset: _Optional[int] = ...) -> None: ...

class GetDelayedResponse(_message.Message):
    __slots__ = ("topic", "slot", "deliver_at", "time_remaining", "state", "key", "value", "scheduled_at", "priority", "headers", "target_partition", "reason", "schedule")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    TIME_REMAINING_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TARGET_PARTITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    slot: str
    deliver_at: _timestamp_pb2.Timestamp
    time_remaining: _duration_pb2.Duration
    state: str
    key: bytes
    value: bytes
    scheduled_at: _timestamp_pb2.Timestamp
    priority: _common_pb2.Priority
    headers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Header]
    target_partition: int
    reason: str
    schedule: str
    def __init__(self, topic: _Optional[str] = ..., slot: _Optional[str] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., time_remaining: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., state: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., scheduled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., headers: _Optional[_Iterable[_Union[_common_pb2.Header, _Mapping]]] = ..., target_partition: _Optional[int] = ..., reason: _Optional[str] = ..., schedule: _Optional[str] = ...) -> None: ...

class CancelDelayedRequest(_message.Message):
    __slots__ = ("topic", "slot_partition", "slot_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_PARTITION_FIELD_NUMBER: _ClassVar[int]
    SLOT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    slot_partition: int
    slot_offset: int
    def __init__(self, topic: _Optional[str] = ..., slot_partition: _Optional[int] = ..., slot_offset: _Optional[int] = ...) -> None: ...

class CancelDelayedResponse(_message.Message):
    __slots__ = ("canceled", "topic", "slot")
    CANCELED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    canceled: bool
    topic: str
    slot: str
    def __init__(self, canceled: _Optional[bool] = ..., topic: _Optional[str] = ..., slot: _Optional[str] = ...) -> None: ...

class RescheduleDelayedRequest(_message.Message):
    __slots__ = ("topic", "slot_partition", "slot_offset", "delay", "deliver_at")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_PARTITION_FIELD_NUMBER: _ClassVar[int]
    SLOT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    slot_partition: int
    slot_offset: int
    delay: _duration_pb2.Duration
    deliver_at: _timestamp_pb2.Timestamp
    def __init__(self, topic: _Optional[str] = ..., slot_partition: _Optional[int] = ..., slot_offset: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RescheduleDelayedResponse(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: DelayedRow
    def __init__(self, message: _Optional[_Union[DelayedRow, _Mapping]] = ...) -> None: ...

class DeliverDelayedNowRequest(_message.Message):
    __slots__ = ("topic", "slot_partition", "slot_offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SLOT_PARTITION_FIELD_NUMBER: _ClassVar[int]
    SLOT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    slot_partition: int
    slot_offset: int
    def __init__(self, topic: _Optional[str] = ..., slot_partition: _Optional[int] = ..., slot_offset: _Optional[int] = ...) -> None: ...

class DeliverDelayedNowResponse(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: DelayedRow
    def __init__(self, message: _Optional[_Union[DelayedRow, _Mapping]] = ...) -> None: ...

class GetDelayStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TopicDelayCounts(_message.Message):
    __slots__ = ("pending", "expired", "scheduled", "delivered", "canceled")
    PENDING_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    CANCELED_FIELD_NUMBER: _ClassVar[int]
    pending: int
    expired: int
    scheduled: int
    delivered: int
    canceled: int
    def __init__(self, pending: _Optional[int] = ..., expired: _Optional[int] = ..., scheduled: _Optional[int] = ..., delivered: _Optional[int] = ..., canceled: _Optional[int] = ...) -> None: ...

class WheelCounts(_message.Message):
    __slots__ = ("current_active", "current_tick", "tick_ms", "active_by_level", "total_scheduled", "total_fired", "total_canceled", "total_cascaded")
    CURRENT_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_TICK_FIELD_NUMBER: _ClassVar[int]
    TICK_MS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIRED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CANCELED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CASCADED_FIELD_NUMBER: _ClassVar[int]
    current_active: int
    current_tick: int
    tick_ms: int
    active_by_level: _containers.RepeatedScalarFieldContainer[int]
    total_scheduled: int
    total_fired: int
    total_canceled: int
    total_cascaded: int
    def __init__(self, current_active: _Optional[int] = ..., current_tick: _Optional[int] = ..., tick_ms: _Optional[int] = ..., active_by_level: _Optional[_Iterable[int]] = ..., total_scheduled: _Optional[int] = ..., total_fired: _Optional[int] = ..., total_canceled: _Optional[int] = ..., total_cascaded: _Optional[int] = ...) -> None: ...

class GetDelayStatsResponse(_message.Message):
    __slots__ = ("total_scheduled", "total_delivered", "total_canceled", "total_expired", "total_pending", "pending_expired", "late_ms_max", "late_ms_average", "schedules", "by_topic", "timer_wheel")
    class ByTopicEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TopicDelayCounts
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TopicDelayCounts, _Mapping]] = ...) -> None: ...
    TOTAL_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_DELIVERED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CANCELED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_PENDING_FIELD_NUMBER: _ClassVar[int]
    PENDING_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    LATE_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    LATE_MS_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    BY_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TIMER_WHEEL_FIELD_NUMBER: _ClassVar[int]
    total_scheduled: int
    total_delivered: int
    total_canceled: int
    total_expired: int
    total_pending: int
    pending_expired: int
    late_ms_max: int
    late_ms_average: float
    schedules: int
    by_topic: _containers.MessageMap[str, TopicDelayCounts]
    timer_wheel: WheelCounts
    def __init__(self, total_scheduled: _Optional[int] = ..., total_delivered: _Optional[int] = ..., total_canceled: _Optional[int] = ..., total_expired: _Optional[int] = ..., total_pending: _Optional[int] = ..., pending_expired: _Optional[int] = ..., late_ms_max: _Optional[int] = ..., late_ms_average: _Optional[float] = ..., schedules: _Optional[int] = ..., by_topic: _Optional[_Mapping[str, TopicDelayCounts]] = ..., timer_wheel: _Optional[_Union[WheelCounts, _Mapping]] = ...) -> None: ...

class CreateScheduleRequest(_message.Message):
    __slots__ = ("name", "cron", "topic", "value", "timezone", "key", "headers", "partition", "missed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    cron: str
    topic: str
    value: bytes
    timezone: str
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Header]
    partition: int
    missed: _common_pb2.MissedRuns
    def __init__(self, name: _Optional[str] = ..., cron: _Optional[str] = ..., topic: _Optional[str] = ..., value: _Optional[bytes] = ..., timezone: _Optional[str] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[_common_pb2.Header, _Mapping]]] = ..., partition: _Optional[int] = ..., missed: _Optional[_Union[_common_pb2.MissedRuns, str]] = ...) -> None: ...

class ScheduleRow(_message.Message):
    __slots__ = ("name", "cron", "timezone", "topic", "missed", "next_runs", "runs", "last_run", "next_slot", "key", "value", "headers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUNS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_FIELD_NUMBER: _ClassVar[int]
    NEXT_SLOT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    cron: str
    timezone: str
    topic: str
    missed: _common_pb2.MissedRuns
    next_runs: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    runs: int
    last_run: _timestamp_pb2.Timestamp
    next_slot: str
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Header]
    def __init__(self, name: _Optional[str] = ..., cron: _Optional[str] = ..., timezone: _Optional[str] = ..., topic: _Optional[str] = ..., missed: _Optional[_Union[_common_pb2.MissedRuns, str]] = ..., next_runs: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., runs: _Optional[int] = ..., last_run: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_slot: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[_common_pb2.Header, _Mapping]]] = ...) -> None: ...

class CreateScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: ScheduleRow
    def __init__(self, schedule: _Optional[_Union[ScheduleRow, _Mapping]] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules", "count")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[ScheduleRow]
    count: int
    def __init__(self, schedules: _Optional[_Iterable[_Union[ScheduleRow, _Mapping]]] = ..., count: _Optional[int] = ...) -> None: ...

class GetScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: ScheduleRow
    def __init__(self, schedule: _Optional[_Union[ScheduleRow, _Mapping]] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ("deleted", "name")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    name: str
    def __init__(self, deleted: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...
