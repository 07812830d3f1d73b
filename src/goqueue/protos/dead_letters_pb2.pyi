from goqueue.protos import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("topic", "reason", "group", "key", "header", "since_ms", "until_ms", "partition", "limit", "cursor")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    reason: str
    group: str
    key: str
    header: str
    since_ms: int
    until_ms: int
    partition: int
    limit: int
    cursor: str
    def __init__(self, topic: _Optional[str] = ..., reason: _Optional[str] = ..., group: _Optional[str] = ..., key: _Optional[str] = ..., header: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., partition: _Optional[int] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("message", "topic", "partition", "offset", "timestamp_ms", "group", "consumer", "delivery_count", "first_delivered_at_ms", "last_delivered_at_ms", "died_at_ms", "reason", "error")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_DELIVERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_DELIVERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DIED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    message: _common_pb2.Message
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    group: str
    consumer: str
    delivery_count: int
    first_delivered_at_ms: int
    last_delivered_at_ms: int
    died_at_ms: int
    reason: str
    error: str
    def __init__(self, message: _Optional[_Union[_common_pb2.Message, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., group: _Optional[str] = ..., consumer: _Optional[str] = ..., delivery_count: _Optional[int] = ..., first_delivered_at_ms: _Optional[int] = ..., last_delivered_at_ms: _Optional[int] = ..., died_at_ms: _Optional[int] = ..., reason: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("topic", "dlq_topic", "total", "letters", "cursor")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    dlq_topic: str
    total: int
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    cursor: str
    def __init__(self, topic: _Optional[str] = ..., dlq_topic: _Optional[str] = ..., total: _Optional[int] = ..., letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class PurgeDeadLettersRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class PurgeDeadLettersResponse(_message.Message):
    __slots__ = ("topic", "dlq_topic", "purged")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    dlq_topic: str
    purged: int
    def __init__(self, topic: _Optional[str] = ..., dlq_topic: _Optional[str] = ..., purged: _Optional[int] = ...) -> None: ...

class StartRedriveRequest(_message.Message):
    __slots__ = ("topic", "reason", "group", "key", "header", "since_ms", "until_ms", "to", "all_groups", "headers", "limit", "per_second", "dry_run")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    ALL_GROUPS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    reason: str
    group: str
    key: str
    header: str
    since_ms: int
    until_ms: int
    to: str
    all_groups: bool
    headers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Header]
    limit: int
    per_second: float
    dry_run: bool
    def __init__(self, topic: _Optional[str] = ..., reason: _Optional[str] = ..., group: _Optional[str] = ..., key: _Optional[str] = ..., header: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., to: _Optional[str] = ..., all_groups: _Optional[bool] = ..., headers: _Optional[_Iterable[_Union[_common_pb2.Header, _Mapping]]] = ..., limit: _Optional[int] = ..., per_second: _Optional[float] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class RedriveProgress(_message.Message):
    __slots__ = ("topic", "state", "dry_run", "total", "scanned", "matched", "redriven", "failed", "started_at_ms", "ended_at_ms", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SCANNED_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    state: str
    dry_run: bool
    total: int
    scanned: int
    matched: int
    redriven: int
    failed: int
    started_at_ms: int
    ended_at_ms: int
    error: str
    def __init__(self, topic: _Optional[str] = ..., state: _Optional[str] = ..., dry_run: _Optional[bool] = ..., total: _Optional[int] = ..., scanned: _Optional[int] = ..., matched: _Optional[int] = ..., redriven: _Optional[int] = ..., failed: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class StartRedriveResponse(_message.Message):
    __slots__ = ("redrive",)
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    redrive: RedriveProgress
    def __init__(self, redrive: _Optional[_Union[RedriveProgress, _Mapping]] = ...) -> None: ...

class GetRedriveRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class GetRedriveResponse(_message.Message):
    __slots__ = ("redrive",)
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    redrive: RedriveProgress
    def __init__(self, redrive: _Optional[_Union[RedriveProgress, _Mapping]] = ...) -> None: ...

class CancelRedriveRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class CancelRedriveResponse(_message.Message):
    __slots__ = ("redrive",)
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    redrive: RedriveProgress
    def __init__(self, redrive: _Optional[_Union[RedriveProgress, _Mapping]] = ...) -> None: ...
