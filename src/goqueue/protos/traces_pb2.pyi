import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStoryRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class StoryEvent(_message.Message):
    __slots__ = ("event", "time", "at_ms", "after_ms", "topic", "partition", "offset", "source", "target", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    event: str
    time: _timestamp_pb2.Timestamp
    at_ms: int
    after_ms: int
    topic: str
    partition: int
    offset: int
    source: str
    target: str
    attributes: _containers.MessageMap[str, _struct_pb2.Value]
    def __init__(self, event: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., at_ms: _Optional[int] = ..., after_ms: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., source: _Optional[str] = ..., target: _Optional[str] = ..., attributes: _Optional[_Mapping[str, _struct_pb2.Value]] = ...) -> None: ...

class GetStoryResponse(_message.Message):
    __slots__ = ("trace_id", "topic", "partition", "offset", "status", "start_time", "end_time", "duration_ms", "places", "events", "parent_span_id", "stored")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    topic: str
    partition: int
    offset: int
    status: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    duration_ms: int
    places: _containers.RepeatedScalarFieldContainer[str]
    events: _containers.RepeatedCompositeFieldContainer[StoryEvent]
    parent_span_id: str
    stored: bool
    def __init__(self, trace_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., status: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration_ms: _Optional[int] = ..., places: _Optional[_Iterable[str]] = ..., events: _Optional[_Iterable[_Union[StoryEvent, _Mapping]]] = ..., parent_span_id: _Optional[str] = ..., stored: _Optional[bool] = ...) -> None: ...

class ListTracesRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class TraceRow(_message.Message):
    __slots__ = ("trace_id", "topic", "partition", "offset", "start_time", "end_time", "duration_ms", "status", "span_count")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SPAN_COUNT_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    duration_ms: int
    status: str
    span_count: int
    def __init__(self, trace_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration_ms: _Optional[int] = ..., status: _Optional[str] = ..., span_count: _Optional[int] = ...) -> None: ...

class ListTracesResponse(_message.Message):
    __slots__ = ("traces", "total")
    TRACES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    traces: _containers.RepeatedCompositeFieldContainer[TraceRow]
    total: int
    def __init__(self, traces: _Optional[_Iterable[_Union[TraceRow, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class SearchTracesRequest(_message.Message):
    __slots__ = ("topic", "partition", "consumer_group", "client", "start_ms", "end_ms", "status", "longer_than", "key", "trace_id", "limit", "cursor")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LONGER_THAN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    consumer_group: str
    client: str
    start_ms: int
    end_ms: int
    status: str
    longer_than: _duration_pb2.Duration
    key: str
    trace_id: str
    limit: int
    cursor: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., consumer_group: _Optional[str] = ..., client: _Optional[str] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., status: _Optional[str] = ..., longer_than: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., key: _Optional[str] = ..., trace_id: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class SearchTracesResponse(_message.Message):
    __slots__ = ("traces", "total", "query", "scanned", "cursor")
    class QueryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TRACES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    SCANNED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    traces: _containers.RepeatedCompositeFieldContainer[TraceRow]
    total: int
    query: _containers.ScalarMap[str, str]
    scanned: int
    cursor: str
    def __init__(self, traces: _Optional[_Iterable[_Union[TraceRow, _Mapping]]] = ..., total: _Optional[int] = ..., query: _Optional[_Mapping[str, str]] = ..., scanned: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class GetTraceRequest(_message.Message):
    __slots__ = ("trace_id",)
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    def __init__(self, trace_id: _Optional[str] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("span_id", "event", "name", "time", "status", "attributes", "parent_span_id")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    span_id: str
    event: str
    name: str
    time: _timestamp_pb2.Timestamp
    status: str
    attributes: _containers.MessageMap[str, _struct_pb2.Value]
    parent_span_id: str
    def __init__(self, span_id: _Optional[str] = ..., event: _Optional[str] = ..., name: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., status: _Optional[str] = ..., attributes: _Optional[_Mapping[str, _struct_pb2.Value]] = ..., parent_span_id: _Optional[str] = ...) -> None: ...

class GetTraceResponse(_message.Message):
    __slots__ = ("trace_id", "topic", "partition", "offset", "start_time", "end_time", "duration_ms", "status", "span_count", "spans")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SPAN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    duration_ms: int
    status: str
    span_count: int
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    def __init__(self, trace_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration_ms: _Optional[int] = ..., status: _Optional[str] = ..., span_count: _Optional[int] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ...) -> None: ...

class GetTraceStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TraceExporter(_message.Message):
    __slots__ = ("name", "exported", "dropped", "failures", "waiting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    name: str
    exported: int
    dropped: int
    failures: int
    waiting: int
    def __init__(self, name: _Optional[str] = ..., exported: _Optional[int] = ..., dropped: _Optional[int] = ..., failures: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class GetTraceStatsResponse(_message.Message):
    __slots__ = ("enabled", "spans_in_buffer", "buffer_capacity", "events", "events_waiting", "events_dropped", "write_failures", "log_bytes", "index_bytes", "sampling_rate", "messages_passed_over", "export_stride", "exporters_enabled", "exporters")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    SPANS_IN_BUFFER_FIELD_NUMBER: _ClassVar[int]
    BUFFER_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_WAITING_FIELD_NUMBER: _ClassVar[int]
    EVENTS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    WRITE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_RATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    EXPORT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    EXPORTERS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    EXPORTERS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    spans_in_buffer: int
    buffer_capacity: int
    events: int
    events_waiting: int
    events_dropped: int
    write_failures: int
    log_bytes: int
    index_bytes: int
    sampling_rate: float
    messages_passed_over: int
    export_stride: int
    exporters_enabled: _containers.RepeatedScalarFieldContainer[str]
    exporters: _containers.RepeatedCompositeFieldContainer[TraceExporter]
    def __init__(self, enabled: _Optional[bool] = ..., spans_in_buffer: _Optional[int] = ..., buffer_capacity: _Optional[int] = ..., events: _Optional[int] = ..., events_waiting: _Optional[int] = ..., events_dropped: _Optional[int] = ..., write_failures: _Optional[int] = ..., log_bytes: _Optional[int] = ..., index_bytes: _Optional[int] = ..., sampling_rate: _Optional[float] = ..., messages_passed_over: _Optional[int] = ..., export_stride: _Optional[int] = ..., exporters_enabled: _Optional[_Iterable[str]] = ..., exporters: _Optional[_Iterable[_Union[TraceExporter, _Mapping]]] = ...) -> None: ...
