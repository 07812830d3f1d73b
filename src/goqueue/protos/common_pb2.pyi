import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AckMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_MODE_UNSPECIFIED: _ClassVar[AckMode]
    ACK_MODE_NONE: _ClassVar[AckMode]
    ACK_MODE_LEADER: _ClassVar[AckMode]
    ACK_MODE_ALL: _ClassVar[AckMode]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_CRITICAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
    PRIORITY_BACKGROUND: _ClassVar[Priority]

class StartPosition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    START_POSITION_UNSPECIFIED: _ClassVar[StartPosition]
    START_POSITION_EARLIEST: _ClassVar[StartPosition]
    START_POSITION_LATEST: _ClassVar[StartPosition]

class Isolation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_UNSPECIFIED: _ClassVar[Isolation]
    ISOLATION_READ_COMMITTED: _ClassVar[Isolation]
    ISOLATION_READ_UNCOMMITTED: _ClassVar[Isolation]

class GroupMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_MODE_UNSPECIFIED: _ClassVar[GroupMode]
    GROUP_MODE_QUEUE: _ClassVar[GroupMode]
    GROUP_MODE_STREAM: _ClassVar[GroupMode]

class Sharing(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHARING_UNSPECIFIED: _ClassVar[Sharing]
    SHARING_EXCLUSIVE: _ClassVar[Sharing]
    SHARING_SHARED: _ClassVar[Sharing]

class SettleAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_ACTION_UNSPECIFIED: _ClassVar[SettleAction]
    SETTLE_ACTION_ACK: _ClassVar[SettleAction]
    SETTLE_ACTION_NACK: _ClassVar[SettleAction]
    SETTLE_ACTION_REJECT: _ClassVar[SettleAction]
    SETTLE_ACTION_EXTEND: _ClassVar[SettleAction]
    SETTLE_ACTION_RELEASE: _ClassVar[SettleAction]

class MissedRuns(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISSED_RUNS_UNSPECIFIED: _ClassVar[MissedRuns]
    MISSED_RUNS_ONCE: _ClassVar[MissedRuns]
    MISSED_RUNS_ALL: _ClassVar[MissedRuns]
    MISSED_RUNS_SKIP: _ClassVar[MissedRuns]
ACK_MODE_UNSPECIFIED: AckMode
ACK_MODE_NONE: AckMode
ACK_MODE_LEADER: AckMode
ACK_MODE_ALL: AckMode
PRIORITY_UNSPECIFIED: Priority
PRIORITY_CRITICAL: Priority
PRIORITY_HIGH: Priority
PRIORITY_NORMAL: Priority
PRIORITY_LOW: Priority
PRIORITY_BACKGROUND: Priority
START_POSITION_UNSPECIFIED: StartPosition
START_POSITION_EARLIEST: StartPosition
START_POSITION_LATEST: StartPosition
ISOLATION_UNSPECIFIED: Isolation
ISOLATION_READ_COMMITTED: Isolation
ISOLATION_READ_UNCOMMITTED: Isolation
GROUP_MODE_UNSPECIFIED: GroupMode
GROUP_MODE_QUEUE: GroupMode
GROUP_MODE_STREAM: GroupMode
SHARING_UNSPECIFIED: Sharing
SHARING_EXCLUSIVE: Sharing
SHARING_SHARED: Sharing
SETTLE_ACTION_UNSPECIFIED: SettleAction
SETTLE_ACTION_ACK: SettleAction
SETTLE_ACTION_NACK: SettleAction
SETTLE_ACTION_REJECT: SettleAction
SETTLE_ACTION_EXTEND: SettleAction
SETTLE_ACTION_RELEASE: SettleAction
MISSED_RUNS_UNSPECIFIED: MissedRuns
MISSED_RUNS_ONCE: MissedRuns
MISSED_RUNS_ALL: MissedRuns
MISSED_RUNS_SKIP: MissedRuns

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("key", "value", "headers", "timestamp_ms", "partition", "priority", "delay", "deliver_at", "deduplication_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    timestamp_ms: int
    partition: int
    priority: Priority
    delay: _duration_pb2.Duration
    deliver_at: _timestamp_pb2.Timestamp
    deduplication_id: str
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., timestamp_ms: _Optional[int] = ..., partition: _Optional[int] = ..., priority: _Optional[_Union[Priority, str]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deduplication_id: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "priority", "receipt_handle", "delivery_count", "visible_until_ms", "first_delivered_at_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_DELIVERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    priority: Priority
    receipt_handle: str
    delivery_count: int
    visible_until_ms: int
    first_delivered_at_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., priority: _Optional[_Union[Priority, str]] = ..., receipt_handle: _Optional[str] = ..., delivery_count: _Optional[int] = ..., visible_until_ms: _Optional[int] = ..., first_delivered_at_ms: _Optional[int] = ...) -> None: ...

class UnreadableRange(_message.Message):
    __slots__ = ("topic", "partition", "first_offset", "last_offset", "reason")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class TopicPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class TopicPartitions(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[TopicPartition, _Mapping]]] = ...) -> None: ...

class TopicPartitionOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class TopicPartitionOffsets(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[TopicPartitionOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[TopicPartitionOffset, _Mapping]]] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("code", "message", "field", "hint", "retriable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    field: str
    hint: str
    retriable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., hint: _Optional[str] = ..., retriable: _Optional[bool] = ...) -> None: ...
