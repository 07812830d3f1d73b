import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from goqueue.protos import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadTopicRequest(_message.Message):
    __slots__ = ("topic", "offset", "timestamp_ms", "start", "isolation", "limit", "max_bytes", "wait", "partition", "offsets")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    offset: int
    timestamp_ms: int
    start: _common_pb2.StartPosition
    isolation: _common_pb2.Isolation
    limit: int
    max_bytes: int
    wait: _duration_pb2.Duration
    partition: int
    offsets: _containers.ScalarMap[int, int]
    def __init__(self, topic: _Optional[str] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., start: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., isolation: _Optional[_Union[_common_pb2.Isolation, str]] = ..., limit: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class ReadTopicResponse(_message.Message):
    __slots__ = ("messages", "next_offsets", "unreadable")
    class NextOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    next_offsets: _containers.ScalarMap[int, int]
    unreadable: _containers.RepeatedCompositeFieldContainer[_common_pb2.UnreadableRange]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ..., next_offsets: _Optional[_Mapping[int, int]] = ..., unreadable: _Optional[_Iterable[_Union[_common_pb2.UnreadableRange, _Mapping]]] = ...) -> None: ...

class ReadPartitionRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "timestamp_ms", "start", "isolation", "limit", "max_bytes", "wait")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    start: _common_pb2.StartPosition
    isolation: _common_pb2.Isolation
    limit: int
    max_bytes: int
    wait: _duration_pb2.Duration
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., start: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., isolation: _Optional[_Union[_common_pb2.Isolation, str]] = ..., limit: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReadPartitionResponse(_message.Message):
    __slots__ = ("messages", "next_offset", "high_watermark", "unreadable")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    next_offset: int
    high_watermark: int
    unreadable: _containers.RepeatedCompositeFieldContainer[_common_pb2.UnreadableRange]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., unreadable: _Optional[_Iterable[_Union[_common_pb2.UnreadableRange, _Mapping]]] = ...) -> None: ...

class ReadByPriorityRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "timestamp_ms", "start", "isolation", "limit", "max_bytes", "offsets")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    start: _common_pb2.StartPosition
    isolation: _common_pb2.Isolation
    limit: int
    max_bytes: int
    offsets: _containers.ScalarMap[str, int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., start: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., isolation: _Optional[_Union[_common_pb2.Isolation, str]] = ..., limit: _Optional[int] = ..., max_bytes: _Optional[int] = ..., offsets: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ReadByPriorityResponse(_message.Message):
    __slots__ = ("messages", "next_offsets", "high_watermark", "unreadable")
    class NextOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    next_offsets: _containers.ScalarMap[str, int]
    high_watermark: int
    unreadable: _containers.RepeatedCompositeFieldContainer[_common_pb2.UnreadableRange]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ..., next_offsets: _Optional[_Mapping[str, int]] = ..., high_watermark: _Optional[int] = ..., unreadable: _Optional[_Iterable[_Union[_common_pb2.UnreadableRange, _Mapping]]] = ...) -> None: ...

class ReadFairlyRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "timestamp_ms", "start", "isolation", "limit", "max_bytes", "offsets")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    start: _common_pb2.StartPosition
    isolation: _common_pb2.Isolation
    limit: int
    max_bytes: int
    offsets: _containers.ScalarMap[str, int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., start: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., isolation: _Optional[_Union[_common_pb2.Isolation, str]] = ..., limit: _Optional[int] = ..., max_bytes: _Optional[int] = ..., offsets: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ReadFairlyResponse(_message.Message):
    __slots__ = ("messages", "next_offsets", "high_watermark", "unreadable")
    class NextOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    next_offsets: _containers.ScalarMap[str, int]
    high_watermark: int
    unreadable: _containers.RepeatedCompositeFieldContainer[_common_pb2.UnreadableRange]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ..., next_offsets: _Optional[_Mapping[str, int]] = ..., high_watermark: _Optional[int] = ..., unreadable: _Optional[_Iterable[_Union[_common_pb2.UnreadableRange, _Mapping]]] = ...) -> None: ...

class FindOffsetRequest(_message.Message):
    __slots__ = ("topic", "partition", "timestamp_ms", "start")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    timestamp_ms: int
    start: _common_pb2.StartPosition
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., start: _Optional[_Union[_common_pb2.StartPosition, str]] = ...) -> None: ...

class FindOffsetResponse(_message.Message):
    __slots__ = ("offset", "timestamp_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp_ms: int
    def __init__(self, offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class ConsumeRequest(_message.Message):
    __slots__ = ("topic", "partitions", "start_position", "start_offset", "start_timestamp_ms", "offsets", "isolation", "max_messages", "max_bytes", "limit", "to_timestamp_ms")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TO_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    start_position: _common_pb2.StartPosition
    start_offset: int
    start_timestamp_ms: int
    offsets: _containers.ScalarMap[int, int]
    isolation: _common_pb2.Isolation
    max_messages: int
    max_bytes: int
    limit: int
    to_timestamp_ms: int
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., start_position: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., start_offset: _Optional[int] = ..., start_timestamp_ms: _Optional[int] = ..., offsets: _Optional[_Mapping[int, int]] = ..., isolation: _Optional[_Union[_common_pb2.Isolation, str]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., limit: _Optional[int] = ..., to_timestamp_ms: _Optional[int] = ...) -> None: ...

class MessageBatch(_message.Message):
    __slots__ = ("messages", "next_offsets", "unreadable")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    next_offsets: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitionOffset]
    unreadable: _containers.RepeatedCompositeFieldContainer[_common_pb2.UnreadableRange]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ..., next_offsets: _Optional[_Iterable[_Union[_common_pb2.TopicPartitionOffset, _Mapping]]] = ..., unreadable: _Optional[_Iterable[_Union[_common_pb2.UnreadableRange, _Mapping]]] = ...) -> None: ...

class StreamHeartbeat(_message.Message):
    __slots__ = ("timestamp_ms",)
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    timestamp_ms: int
    def __init__(self, timestamp_ms: _Optional[int] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("batch", "heartbeat")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    batch: MessageBatch
    heartbeat: StreamHeartbeat
    def __init__(self, batch: _Optional[_Union[MessageBatch, _Mapping]] = ..., heartbeat: _Optional[_Union[StreamHeartbeat, _Mapping]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("group", "topics", "pattern", "client_id", "start_position", "max_messages", "max_bytes", "instance_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    client_id: str
    start_position: _common_pb2.StartPosition
    max_messages: int
    max_bytes: int
    instance_id: str
    def __init__(self, group: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., client_id: _Optional[str] = ..., start_position: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., instance_id: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("member_id", "generation", "partitions")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    generation: int
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    def __init__(self, member_id: _Optional[str] = ..., generation: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("batch", "heartbeat", "assignment", "revocation")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    REVOCATION_FIELD_NUMBER: _ClassVar[int]
    batch: MessageBatch
    heartbeat: StreamHeartbeat
    assignment: Assignment
    revocation: Revocation
    def __init__(self, batch: _Optional[_Union[MessageBatch, _Mapping]] = ..., heartbeat: _Optional[_Union[StreamHeartbeat, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., revocation: _Optional[_Union[Revocation, _Mapping]] = ...) -> None: ...
