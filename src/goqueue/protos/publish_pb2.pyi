import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from goqueue.protos import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PublishRequest(_message.Message):
    __slots__ = ("topic", "record", "ack_mode", "producer_id", "producer_epoch", "sequence", "transaction_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    record: _common_pb2.Record
    ack_mode: _common_pb2.AckMode
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction_id: str
    def __init__(self, topic: _Optional[str] = ..., record: _Optional[_Union[_common_pb2.Record, _Mapping]] = ..., ack_mode: _Optional[_Union[_common_pb2.AckMode, str]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class PublishResult(_message.Message):
    __slots__ = ("partition", "offset", "timestamp_ms", "duplicate", "delayed", "slot", "deliver_at", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    timestamp_ms: int
    duplicate: bool
    delayed: bool
    slot: str
    deliver_at: _timestamp_pb2.Timestamp
    error: _common_pb2.ErrorDetail
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., duplicate: _Optional[bool] = ..., delayed: _Optional[bool] = ..., slot: _Optional[str] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("result", "ack_mode", "durability", "replicas")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    result: PublishResult
    ack_mode: _common_pb2.AckMode
    durability: str
    replicas: int
    def __init__(self, result: _Optional[_Union[PublishResult, _Mapping]] = ..., ack_mode: _Optional[_Union[_common_pb2.AckMode, str]] = ..., durability: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...

class PublishBatchRequest(_message.Message):
    __slots__ = ("topic", "records", "ack_mode", "partition", "producer_id", "producer_epoch", "sequence", "transaction_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    records: _containers.RepeatedCompositeFieldContainer[_common_pb2.Record]
    ack_mode: _common_pb2.AckMode
    partition: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction_id: str
    def __init__(self, topic: _Optional[str] = ..., records: _Optional[_Iterable[_Union[_common_pb2.Record, _Mapping]]] = ..., ack_mode: _Optional[_Union[_common_pb2.AckMode, str]] = ..., partition: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class PublishBatchResponse(_message.Message):
    __slots__ = ("results", "count", "ack_mode", "duplicate", "durability", "replicas")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[PublishResult]
    count: int
    ack_mode: _common_pb2.AckMode
    duplicate: bool
    durability: str
    replicas: int
    def __init__(self, results: _Optional[_Iterable[_Union[PublishResult, _Mapping]]] = ..., count: _Optional[int] = ..., ack_mode: _Optional[_Union[_common_pb2.AckMode, str]] = ..., duplicate: _Optional[bool] = ..., durability: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...

class PublishStreamRequest(_message.Message):
    __slots__ = ("correlation_id", "topic", "records", "ack_mode", "partition", "producer_id", "producer_epoch", "sequence", "transaction_id")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    topic: str
    records: _containers.RepeatedCompositeFieldContainer[_common_pb2.Record]
    ack_mode: _common_pb2.AckMode
    partition: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction_id: str
    def __init__(self, correlation_id: _Optional[int] = ..., topic: _Optional[str] = ..., records: _Optional[_Iterable[_Union[_common_pb2.Record, _Mapping]]] = ..., ack_mode: _Optional[_Union[_common_pb2.AckMode, str]] = ..., partition: _Optional[int] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class PublishedRange(_message.Message):
    __slots__ = ("first_correlation_id", "count", "partition", "first_offset", "timestamp_ms", "duplicate", "slot", "deliver_at")
    FIRST_CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    first_correlation_id: int
    count: int
    partition: int
    first_offset: int
    timestamp_ms: int
    duplicate: bool
    slot: str
    deliver_at: _timestamp_pb2.Timestamp
    def __init__(self, first_correlation_id: _Optional[int] = ..., count: _Optional[int] = ..., partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., duplicate: _Optional[bool] = ..., slot: _Optional[str] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PublishFailure(_message.Message):
    __slots__ = ("first_correlation_id", "count", "error")
    FIRST_CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    first_correlation_id: int
    count: int
    error: _common_pb2.ErrorDetail
    def __init__(self, first_correlation_id: _Optional[int] = ..., count: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class PublishStreamResponse(_message.Message):
    __slots__ = ("first_correlation_id", "last_correlation_id", "ranges", "failures")
    FIRST_CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    first_correlation_id: int
    last_correlation_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[PublishedRange]
    failures: _containers.RepeatedCompositeFieldContainer[PublishFailure]
    def __init__(self, first_correlation_id: _Optional[int] = ..., last_correlation_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[PublishedRange, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[PublishFailure, _Mapping]]] = ...) -> None: ...
