import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetVersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetVersionResponse(_message.Message):
    __slots__ = ("version", "commit", "built", "python", "started_at")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    BUILT_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    version: str
    commit: str
    built: str
    python: str
    started_at: _timestamp_pb2.Timestamp
    def __init__(self, version: _Optional[str] = ..., commit: _Optional[str] = ..., built: _Optional[str] = ..., python: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ("internal",)
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    internal: bool
    def __init__(self, internal: _Optional[bool] = ...) -> None: ...

class TopicStats(_message.Message):
    __slots__ = ("partitions", "messages", "size_bytes")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    partitions: int
    messages: int
    size_bytes: int
    def __init__(self, partitions: _Optional[int] = ..., messages: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class GetStatsResponse(_message.Message):
    __slots__ = ("node_id", "cluster_id", "uptime_seconds", "topics", "partitions", "total_size_bytes", "disk_free_bytes", "topic_stats")
    class TopicStatsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TopicStats
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TopicStats, _Mapping]] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_STATS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    cluster_id: str
    uptime_seconds: float
    topics: int
    partitions: int
    total_size_bytes: int
    disk_free_bytes: int
    topic_stats: _containers.MessageMap[str, TopicStats]
    def __init__(self, node_id: _Optional[int] = ..., cluster_id: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., topics: _Optional[int] = ..., partitions: _Optional[int] = ..., total_size_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., topic_stats: _Optional[_Mapping[str, TopicStats]] = ...) -> None: ...

class GetInstantRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogEndRow(_message.Message):
    __slots__ = ("directory", "segment", "size_bytes")
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    directory: str
    segment: str
    size_bytes: int
    def __init__(self, directory: _Optional[str] = ..., segment: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class GetInstantResponse(_message.Message):
    __slots__ = ("taken_ms", "data_dir", "logs")
    TAKEN_MS_FIELD_NUMBER: _ClassVar[int]
    DATA_DIR_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    taken_ms: int
    data_dir: str
    logs: _containers.RepeatedCompositeFieldContainer[LogEndRow]
    def __init__(self, taken_ms: _Optional[int] = ..., data_dir: _Optional[str] = ..., logs: _Optional[_Iterable[_Union[LogEndRow, _Mapping]]] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeRow(_message.Message):
    __slots__ = ("id", "kafka", "status", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: int
    kafka: str
    status: str
    version: str
    def __init__(self, id: _Optional[int] = ..., kafka: _Optional[str] = ..., status: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "controller", "nodes")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeRow]
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeRow, _Mapping]]] = ...) -> None: ...

class ListPipelinesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PipelineSink(_message.Message):
    __slots__ = ("sink", "group", "topics", "lag", "lag_seconds", "last_batch_ms")
    SINK_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_MS_FIELD_NUMBER: _ClassVar[int]
    sink: str
    group: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    lag: int
    lag_seconds: float
    last_batch_ms: int
    def __init__(self, sink: _Optional[str] = ..., group: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., lag: _Optional[int] = ..., lag_seconds: _Optional[float] = ..., last_batch_ms: _Optional[int] = ...) -> None: ...

class PipelineRow(_message.Message):
    __slots__ = ("name", "lag", "last_batch_ms", "sinks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_MS_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    lag: int
    last_batch_ms: int
    sinks: _containers.RepeatedCompositeFieldContainer[PipelineSink]
    def __init__(self, name: _Optional[str] = ..., lag: _Optional[int] = ..., last_batch_ms: _Optional[int] = ..., sinks: _Optional[_Iterable[_Union[PipelineSink, _Mapping]]] = ...) -> None: ...

class ListPipelinesResponse(_message.Message):
    __slots__ = ("pipelines",)
    PIPELINES_FIELD_NUMBER: _ClassVar[int]
    pipelines: _containers.RepeatedCompositeFieldContainer[PipelineRow]
    def __init__(self, pipelines: _Optional[_Iterable[_Union[PipelineRow, _Mapping]]] = ...) -> None: ...
