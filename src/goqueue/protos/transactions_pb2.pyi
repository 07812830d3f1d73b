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

class InitProducerRequest(_message.Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    transaction_timeout_ms: int
    def __init__(self, transactional_id: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ...) -> None: ...

class InitProducerResponse(_message.Message):
    __slots__ = ("producer_id", "epoch", "heartbeat_interval_ms", "session_timeout_ms")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    epoch: int
    heartbeat_interval_ms: int
    session_timeout_ms: int
    def __init__(self, producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class HeartbeatProducerRequest(_message.Message):
    __slots__ = ("producer_id", "transactional_id", "epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    transactional_id: str
    epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., transactional_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class HeartbeatProducerResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class BeginTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "transaction_id")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class BeginTransactionResponse(_message.Message):
    __slots__ = ("transaction_id",)
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    def __init__(self, transaction_id: _Optional[str] = ...) -> None: ...

class PublishInTransactionRequest(_message.Message):
    __slots__ = ("producer_id", "epoch", "topic", "value", "sequence", "transactional_id", "transaction_id", "partition", "key", "headers", "delay", "deliver_at")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    epoch: int
    topic: str
    value: bytes
    sequence: int
    transactional_id: str
    transaction_id: str
    partition: int
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[_common_pb2.Header]
    delay: _duration_pb2.Duration
    deliver_at: _timestamp_pb2.Timestamp
    def __init__(self, producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., topic: _Optional[str] = ..., value: _Optional[bytes] = ..., sequence: _Optional[int] = ..., transactional_id: _Optional[str] = ..., transaction_id: _Optional[str] = ..., partition: _Optional[int] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[_common_pb2.Header, _Mapping]]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PublishInTransactionResponse(_message.Message):
    __slots__ = ("duplicate", "partition", "offset", "delayed", "slot", "deliver_at")
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    duplicate: bool
    partition: int
    offset: int
    delayed: bool
    slot: str
    deliver_at: _timestamp_pb2.Timestamp
    def __init__(self, duplicate: _Optional[bool] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., delayed: _Optional[bool] = ..., slot: _Optional[str] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AddPartitionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "transaction_id", "topic", "partition")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str
    topic: str
    partition: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class AddPartitionResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class AddOffsetsRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "transaction_id", "group", "offsets", "member_id", "generation")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitionOffset]
    member_id: str
    generation: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ..., group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[_common_pb2.TopicPartitionOffset, _Mapping]]] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class AddOffsetsResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class AddSettlementsRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "transaction_id", "receipts", "action", "error")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str
    receipts: _containers.RepeatedScalarFieldContainer[str]
    action: _common_pb2.SettleAction
    error: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ..., receipts: _Optional[_Iterable[str]] = ..., action: _Optional[_Union[_common_pb2.SettleAction, str]] = ..., error: _Optional[str] = ...) -> None: ...

class AddSettlementsResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class CommitTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "transaction_id")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class CommitTransactionResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class AbortTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "transaction_id")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ...) -> None: ...

class AbortTransactionResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TransactionRow(_message.Message):
    __slots__ = ("transactional_id", "transaction_id", "producer_id", "epoch", "state", "timeout_ms", "started_ms", "partitions")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    transaction_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactional_id: _Optional[str] = ..., transaction_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., started_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("transactions", "count")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionRow]
    count: int
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionRow, _Mapping]]] = ..., count: _Optional[int] = ...) -> None: ...

class GetTransactionStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTransactionStatsResponse(_message.Message):
    __slots__ = ("transactional_ids", "states", "ending", "oldest_open_ms", "sessions", "prepared_writers", "prepared_participants", "begun", "committed", "aborted", "timed_out", "markers_written", "marker_retries", "end_ms_mean")
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_OPEN_MS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_WRITERS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    MARKERS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    MARKER_RETRIES_FIELD_NUMBER: _ClassVar[int]
    END_MS_MEAN_FIELD_NUMBER: _ClassVar[int]
    transactional_ids: int
    states: _containers.ScalarMap[str, int]
    ending: int
    oldest_open_ms: int
    sessions: int
    prepared_writers: int
    prepared_participants: int
    begun: int
    committed: int
    aborted: int
    timed_out: int
    markers_written: int
    marker_retries: int
    end_ms_mean: float
    def __init__(self, transactional_ids: _Optional[int] = ..., states: _Optional[_Mapping[str, int]] = ..., ending: _Optional[int] = ..., oldest_open_ms: _Optional[int] = ..., sessions: _Optional[int] = ..., prepared_writers: _Optional[int] = ..., prepared_participants: _Optional[int] = ..., begun: _Optional[int] = ..., committed: _Optional[int] = ..., aborted: _Optional[int] = ..., timed_out: _Optional[int] = ..., markers_written: _Optional[int] = ..., marker_retries: _Optional[int] = ..., end_ms_mean: _Optional[float] = ...) -> None: ...

class DescribeTransactionRequest(_message.Message):
    __slots__ = ("transactional_id",)
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    def __init__(self, transactional_id: _Optional[str] = ...) -> None: ...

class DescribeTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: TransactionRow
    def __init__(self, transaction: _Optional[_Union[TransactionRow, _Mapping]] = ...) -> None: ...

class TerminateTransactionRequest(_message.Message):
    __slots__ = ("transactional_id",)
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    def __init__(self, transactional_id: _Optional[str] = ...) -> None: ...

class TerminateTransactionResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class OpenParticipantRequest(_message.Message):
    __slots__ = ("writer", "epoch", "task")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    writer: str
    epoch: int
    task: str
    def __init__(self, writer: _Optional[str] = ..., epoch: _Optional[int] = ..., task: _Optional[str] = ...) -> None: ...

class OpenParticipantResponse(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "already_committed")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ALREADY_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    already_committed: bool
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., already_committed: _Optional[bool] = ...) -> None: ...

class CountedParticipant(_message.Message):
    __slots__ = ("task", "producer_id", "producer_epoch")
    TASK_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    task: str
    producer_id: int
    producer_epoch: int
    def __init__(self, task: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class CommitEpochRequest(_message.Message):
    __slots__ = ("writer", "epoch", "participants")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    writer: str
    epoch: int
    participants: _containers.RepeatedCompositeFieldContainer[CountedParticipant]
    def __init__(self, writer: _Optional[str] = ..., epoch: _Optional[int] = ..., participants: _Optional[_Iterable[_Union[CountedParticipant, _Mapping]]] = ...) -> None: ...

class CommitEpochResponse(_message.Message):
    __slots__ = ("status", "already_decided", "committed", "aborted")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ALREADY_DECIDED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    status: str
    already_decided: bool
    committed: int
    aborted: int
    def __init__(self, status: _Optional[str] = ..., already_decided: _Optional[bool] = ..., committed: _Optional[int] = ..., aborted: _Optional[int] = ...) -> None: ...

class AbortEpochRequest(_message.Message):
    __slots__ = ("writer", "epoch")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    writer: str
    epoch: int
    def __init__(self, writer: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class AbortEpochResponse(_message.Message):
    __slots__ = ("status", "already_decided", "committed", "aborted")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ALREADY_DECIDED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    status: str
    already_decided: bool
    committed: int
    aborted: int
    def __init__(self, status: _Optional[str] = ..., already_decided: _Optional[bool] = ..., committed: _Optional[int] = ..., aborted: _Optional[int] = ...) -> None: ...

class ListWritersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ParticipantRow(_message.Message):
    __slots__ = ("epoch", "task", "state", "producer_id", "producer_epoch", "started_ms", "timeout_ms", "partitions")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    task: str
    state: str
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, epoch: _Optional[int] = ..., task: _Optional[str] = ..., state: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., started_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class EpochRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class WriterRow(_message.Message):
    __slots__ = ("writer", "last_committed_epoch", "committed_epochs", "participants")
    WRITER_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMITTED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    writer: str
    last_committed_epoch: int
    committed_epochs: _containers.RepeatedCompositeFieldContainer[EpochRange]
    participants: _containers.RepeatedCompositeFieldContainer[ParticipantRow]
    def __init__(self, writer: _Optional[str] = ..., last_committed_epoch: _Optional[int] = ..., committed_epochs: _Optional[_Iterable[_Union[EpochRange, _Mapping]]] = ..., participants: _Optional[_Iterable[_Union[ParticipantRow, _Mapping]]] = ...) -> None: ...

class ListWritersResponse(_message.Message):
    __slots__ = ("writers", "count")
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    writers: _containers.RepeatedCompositeFieldContainer[WriterRow]
    count: int
    def __init__(self, writers: _Optional[_Iterable[_Union[WriterRow, _Mapping]]] = ..., count: _Optional[int] = ...) -> None: ...

class GetWriterRequest(_message.Message):
    __slots__ = ("writer",)
    WRITER_FIELD_NUMBER: _ClassVar[int]
    writer: str
    def __init__(self, writer: _Optional[str] = ...) -> None: ...

class GetWriterResponse(_message.Message):
    __slots__ = ("writer",)
    WRITER_FIELD_NUMBER: _ClassVar[int]
    writer: WriterRow
    def __init__(self, writer: _Optional[_Union[WriterRow, _Mapping]] = ...) -> None: ...
