import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from goqueue.protos import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListGroupsRequest(_message.Message):
    __slots__ = ("internal",)
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    internal: bool
    def __init__(self, internal: _Optional[bool] = ...) -> None: ...

class GroupRow(_message.Message):
    __slots__ = ("id", "mode", "state", "protocol", "members", "generation", "topics")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    id: str
    mode: str
    state: str
    protocol: str
    members: int
    generation: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., mode: _Optional[str] = ..., state: _Optional[str] = ..., protocol: _Optional[str] = ..., members: _Optional[int] = ..., generation: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupRow]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupRow, _Mapping]]] = ...) -> None: ...

class GetGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class MemberRow(_message.Message):
    __slots__ = ("id", "client_id", "host", "assigned_partitions", "instance_id", "tags")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    client_id: str
    host: str
    assigned_partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    instance_id: str
    tags: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., client_id: _Optional[str] = ..., host: _Optional[str] = ..., assigned_partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ..., instance_id: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ...) -> None: ...

class OffsetRow(_message.Message):
    __slots__ = ("topic", "partition", "committed", "end", "lag", "lag_seconds", "metadata")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    lag_seconds: float
    metadata: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., committed: _Optional[int] = ..., end: _Optional[int] = ..., lag: _Optional[int] = ..., lag_seconds: _Optional[float] = ..., metadata: _Optional[str] = ...) -> None: ...

class GetGroupResponse(_message.Message):
    __slots__ = ("id", "mode", "state", "protocol", "generation", "topics", "assignor", "members", "offsets", "sharing", "key_ordered")
    ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    KEY_ORDERED_FIELD_NUMBER: _ClassVar[int]
    id: str
    mode: str
    state: str
    protocol: str
    generation: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    assignor: str
    members: _containers.RepeatedCompositeFieldContainer[MemberRow]
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetRow]
    sharing: str
    key_ordered: bool
    def __init__(self, id: _Optional[str] = ..., mode: _Optional[str] = ..., state: _Optional[str] = ..., protocol: _Optional[str] = ..., generation: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., assignor: _Optional[str] = ..., members: _Optional[_Iterable[_Union[MemberRow, _Mapping]]] = ..., offsets: _Optional[_Iterable[_Union[OffsetRow, _Mapping]]] = ..., sharing: _Optional[str] = ..., key_ordered: _Optional[bool] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ("deleted", "group")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    group: str
    def __init__(self, deleted: _Optional[bool] = ..., group: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("group", "topics", "client_id", "member_id", "mode", "sharing", "key_ordered", "session_timeout_ms", "rebalance_timeout_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    KEY_ORDERED_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    client_id: str
    member_id: str
    mode: _common_pb2.GroupMode
    sharing: _common_pb2.Sharing
    key_ordered: bool
    session_timeout_ms: int
    rebalance_timeout_ms: int
    def __init__(self, group: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., client_id: _Optional[str] = ..., member_id: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.GroupMode, str]] = ..., sharing: _Optional[_Union[_common_pb2.Sharing, str]] = ..., key_ordered: _Optional[bool] = ..., session_timeout_ms: _Optional[int] = ..., rebalance_timeout_ms: _Optional[int] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("member_id", "generation", "leader_id", "protocol", "partitions", "members", "missing_topics")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MISSING_TOPICS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    generation: int
    leader_id: str
    protocol: str
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    members: _containers.RepeatedScalarFieldContainer[str]
    missing_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, member_id: _Optional[str] = ..., generation: _Optional[int] = ..., leader_id: _Optional[str] = ..., protocol: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ..., members: _Optional[_Iterable[str]] = ..., missing_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("group", "member_id", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    generation: int
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("group", "member_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ("group", "member")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: str
    def __init__(self, group: _Optional[str] = ..., member: _Optional[str] = ...) -> None: ...

class RemoveMemberResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class PollRequest(_message.Message):
    __slots__ = ("group", "member_id", "generation", "positions", "again", "paused", "visibility", "timeout_ms", "limit", "max_bytes", "auto_offset_reset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    AUTO_OFFSET_RESET_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    generation: int
    positions: _common_pb2.TopicPartitionOffsets
    again: bool
    paused: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    visibility: _duration_pb2.Duration
    timeout_ms: int
    limit: int
    max_bytes: int
    auto_offset_reset: _common_pb2.StartPosition
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ..., positions: _Optional[_Union[_common_pb2.TopicPartitionOffsets, _Mapping]] = ..., again: _Optional[bool] = ..., paused: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ..., visibility: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., limit: _Optional[int] = ..., max_bytes: _Optional[int] = ..., auto_offset_reset: _Optional[_Union[_common_pb2.StartPosition, str]] = ...) -> None: ...

class PollResponse(_message.Message):
    __slots__ = ("messages", "next_offsets", "generation", "unreadable")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_common_pb2.Message]
    next_offsets: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitionOffset]
    generation: int
    unreadable: _containers.RepeatedCompositeFieldContainer[_common_pb2.UnreadableRange]
    def __init__(self, messages: _Optional[_Iterable[_Union[_common_pb2.Message, _Mapping]]] = ..., next_offsets: _Optional[_Iterable[_Union[_common_pb2.TopicPartitionOffset, _Mapping]]] = ..., generation: _Optional[int] = ..., unreadable: _Optional[_Iterable[_Union[_common_pb2.UnreadableRange, _Mapping]]] = ...) -> None: ...

class GetAssignmentRequest(_message.Message):
    __slots__ = ("group", "member_id", "generation")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    generation: int
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class GetAssignmentResponse(_message.Message):
    __slots__ = ("member_id", "generation", "partitions")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    generation: int
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    def __init__(self, member_id: _Optional[str] = ..., generation: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class JoinCooperativeRequest(_message.Message):
    __slots__ = ("group", "topics", "pattern", "client_id", "tags", "instance_id", "assignor", "mode", "sharing", "key_ordered")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    KEY_ORDERED_FIELD_NUMBER: _ClassVar[int]
    group: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    client_id: str
    tags: _containers.ScalarMap[str, str]
    instance_id: str
    assignor: str
    mode: _common_pb2.GroupMode
    sharing: _common_pb2.Sharing
    key_ordered: bool
    def __init__(self, group: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., client_id: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., instance_id: _Optional[str] = ..., assignor: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.GroupMode, str]] = ..., sharing: _Optional[_Union[_common_pb2.Sharing, str]] = ..., key_ordered: _Optional[bool] = ...) -> None: ...

class CooperativeState(_message.Message):
    __slots__ = ("member_id", "generation", "protocol", "state", "rebalance_required", "partitions", "partitions_assigned", "partitions_to_revoke", "heartbeat_interval_ms", "revocation_deadline_ms", "topic_ids", "missing_topics")
    class TopicIdsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_TO_REVOKE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    REVOCATION_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    MISSING_TOPICS_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    generation: int
    protocol: str
    state: str
    rebalance_required: bool
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    partitions_assigned: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    partitions_to_revoke: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    heartbeat_interval_ms: int
    revocation_deadline_ms: int
    topic_ids: _containers.ScalarMap[str, str]
    missing_topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, member_id: _Optional[str] = ..., generation: _Optional[int] = ..., protocol: _Optional[str] = ..., state: _Optional[str] = ..., rebalance_required: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ..., partitions_assigned: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ..., partitions_to_revoke: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ..., heartbeat_interval_ms: _Optional[int] = ..., revocation_deadline_ms: _Optional[int] = ..., topic_ids: _Optional[_Mapping[str, str]] = ..., missing_topics: _Optional[_Iterable[str]] = ...) -> None: ...

class JoinCooperativeResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: CooperativeState
    def __init__(self, member: _Optional[_Union[CooperativeState, _Mapping]] = ...) -> None: ...

class HeartbeatCooperativeRequest(_message.Message):
    __slots__ = ("group", "member_id", "generation", "owned_partitions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OWNED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    generation: int
    owned_partitions: _common_pb2.TopicPartitions
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ..., owned_partitions: _Optional[_Union[_common_pb2.TopicPartitions, _Mapping]] = ...) -> None: ...

class HeartbeatCooperativeResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: CooperativeState
    def __init__(self, member: _Optional[_Union[CooperativeState, _Mapping]] = ...) -> None: ...

class RevokePartitionsRequest(_message.Message):
    __slots__ = ("group", "member_id", "generation", "revoked_partitions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REVOKED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    generation: int
    revoked_partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ..., revoked_partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class RevokePartitionsResponse(_message.Message):
    __slots__ = ("status", "pending_count", "rebalance_state", "generation")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    status: str
    pending_count: int
    rebalance_state: str
    generation: int
    def __init__(self, status: _Optional[str] = ..., pending_count: _Optional[int] = ..., rebalance_state: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class LeaveCooperativeRequest(_message.Message):
    __slots__ = ("group", "member_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ...) -> None: ...

class LeaveCooperativeResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class GetCooperativeGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GetCooperativeGroupResponse(_message.Message):
    __slots__ = ("id", "state", "protocol", "generation", "assignment_strategy", "member_assignments", "member_targets")
    class MemberAssignmentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _common_pb2.TopicPartitions
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_common_pb2.TopicPartitions, _Mapping]] = ...) -> None: ...
    class MemberTargetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _common_pb2.TopicPartitions
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_common_pb2.TopicPartitions, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_STRATEGY_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_TARGETS_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    protocol: str
    generation: int
    assignment_strategy: str
    member_assignments: _containers.MessageMap[str, _common_pb2.TopicPartitions]
    member_targets: _containers.MessageMap[str, _common_pb2.TopicPartitions]
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., protocol: _Optional[str] = ..., generation: _Optional[int] = ..., assignment_strategy: _Optional[str] = ..., member_assignments: _Optional[_Mapping[str, _common_pb2.TopicPartitions]] = ..., member_targets: _Optional[_Mapping[str, _common_pb2.TopicPartitions]] = ...) -> None: ...

class GetRebalanceStatsRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GetRebalanceStatsResponse(_message.Message):
    __slots__ = ("total_rebalances", "successful_rebalances", "abandoned_rebalances", "total_partitions_moved", "total_revocation_timeouts", "average_rebalance_duration_ms", "last_rebalance_duration_ms", "last_rebalance_at_ms", "rebalances_by_reason")
    class RebalancesByReasonEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_REBALANCES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSFUL_REBALANCES_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_REBALANCES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_PARTITIONS_MOVED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_REVOCATION_TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_REBALANCE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_REBALANCE_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_REBALANCE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCES_BY_REASON_FIELD_NUMBER: _ClassVar[int]
    total_rebalances: int
    successful_rebalances: int
    abandoned_rebalances: int
    total_partitions_moved: int
    total_revocation_timeouts: int
    average_rebalance_duration_ms: float
    last_rebalance_duration_ms: int
    last_rebalance_at_ms: int
    rebalances_by_reason: _containers.ScalarMap[str, int]
    def __init__(self, total_rebalances: _Optional[int] = ..., successful_rebalances: _Optional[int] = ..., abandoned_rebalances: _Optional[int] = ..., total_partitions_moved: _Optional[int] = ..., total_revocation_timeouts: _Optional[int] = ..., average_rebalance_duration_ms: _Optional[float] = ..., last_rebalance_duration_ms: _Optional[int] = ..., last_rebalance_at_ms: _Optional[int] = ..., rebalances_by_reason: _Optional[_Mapping[str, int]] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("group", "topic")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class EffectivePolicy(_message.Message):
    __slots__ = ("visibility_ms", "retries_max", "backoff_ms", "backoff_multiplier", "backoff_ms_max", "backoff_jitter", "in_flight_max", "outstanding_max", "key_ordered", "dead_letters", "ttl_ms", "strict_priority", "lane_weights", "starvation_ms")
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_JITTER_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_MAX_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_MAX_FIELD_NUMBER: _ClassVar[int]
    KEY_ORDERED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    STRICT_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LANE_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    STARVATION_MS_FIELD_NUMBER: _ClassVar[int]
    visibility_ms: int
    retries_max: int
    backoff_ms: int
    backoff_multiplier: float
    backoff_ms_max: int
    backoff_jitter: float
    in_flight_max: int
    outstanding_max: int
    key_ordered: bool
    dead_letters: bool
    ttl_ms: int
    strict_priority: bool
    lane_weights: _containers.RepeatedScalarFieldContainer[int]
    starvation_ms: int
    def __init__(self, visibility_ms: _Optional[int] = ..., retries_max: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., backoff_multiplier: _Optional[float] = ..., backoff_ms_max: _Optional[int] = ..., backoff_jitter: _Optional[float] = ..., in_flight_max: _Optional[int] = ..., outstanding_max: _Optional[int] = ..., key_ordered: _Optional[bool] = ..., dead_letters: _Optional[bool] = ..., ttl_ms: _Optional[int] = ..., strict_priority: _Optional[bool] = ..., lane_weights: _Optional[_Iterable[int]] = ..., starvation_ms: _Optional[int] = ...) -> None: ...

class GroupPolicy(_message.Message):
    __slots__ = ("group", "mode", "sharing", "key_ordered", "overrides", "effective")
    class OverridesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHARING_FIELD_NUMBER: _ClassVar[int]
    KEY_ORDERED_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    group: str
    mode: str
    sharing: str
    key_ordered: bool
    overrides: _containers.MessageMap[str, _struct_pb2.Value]
    effective: EffectivePolicy
    def __init__(self, group: _Optional[str] = ..., mode: _Optional[str] = ..., sharing: _Optional[str] = ..., key_ordered: _Optional[bool] = ..., overrides: _Optional[_Mapping[str, _struct_pb2.Value]] = ..., effective: _Optional[_Union[EffectivePolicy, _Mapping]] = ...) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: GroupPolicy
    def __init__(self, policy: _Optional[_Union[GroupPolicy, _Mapping]] = ...) -> None: ...

class AlterPolicyRequest(_message.Message):
    __slots__ = ("group", "visibility_ms", "retries_max", "backoff_ms", "backoff_multiplier", "backoff_ms_max", "backoff_jitter", "in_flight_max", "outstanding_max", "key_ordered", "dead_letters", "ttl_ms", "strict_priority", "starvation_ms", "reset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_JITTER_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_MAX_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_MAX_FIELD_NUMBER: _ClassVar[int]
    KEY_ORDERED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    STRICT_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STARVATION_MS_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    group: str
    visibility_ms: int
    retries_max: int
    backoff_ms: int
    backoff_multiplier: float
    backoff_ms_max: int
    backoff_jitter: float
    in_flight_max: int
    outstanding_max: int
    key_ordered: bool
    dead_letters: bool
    ttl_ms: int
    strict_priority: bool
    starvation_ms: int
    reset: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., visibility_ms: _Optional[int] = ..., retries_max: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., backoff_multiplier: _Optional[float] = ..., backoff_ms_max: _Optional[int] = ..., backoff_jitter: _Optional[float] = ..., in_flight_max: _Optional[int] = ..., outstanding_max: _Optional[int] = ..., key_ordered: _Optional[bool] = ..., dead_letters: _Optional[bool] = ..., ttl_ms: _Optional[int] = ..., strict_priority: _Optional[bool] = ..., starvation_ms: _Optional[int] = ..., reset: _Optional[_Iterable[str]] = ...) -> None: ...

class AlterPolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: GroupPolicy
    def __init__(self, policy: _Optional[_Union[GroupPolicy, _Mapping]] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group", "offsets", "member_id", "generation", "metadata")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitionOffset]
    member_id: str
    generation: int
    metadata: str
    def __init__(self, group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[_common_pb2.TopicPartitionOffset, _Mapping]]] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ..., metadata: _Optional[str] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("status", "group", "offsets")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    status: str
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartitionOffset]
    def __init__(self, status: _Optional[str] = ..., group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[_common_pb2.TopicPartitionOffset, _Mapping]]] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class FetchedOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset", "end", "lag", "lag_seconds", "metadata")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    end: int
    lag: int
    lag_seconds: float
    metadata: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., end: _Optional[int] = ..., lag: _Optional[int] = ..., lag_seconds: _Optional[float] = ..., metadata: _Optional[str] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("group_id", "offsets", "total_lag")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LAG_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[FetchedOffset]
    total_lag: int
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[FetchedOffset, _Mapping]]] = ..., total_lag: _Optional[int] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("group", "position", "timestamp_ms", "offset", "shift", "topic", "partitions", "dry_run")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    group: str
    position: _common_pb2.StartPosition
    timestamp_ms: int
    offset: int
    shift: int
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    dry_run: bool
    def __init__(self, group: _Optional[str] = ..., position: _Optional[_Union[_common_pb2.StartPosition, str]] = ..., timestamp_ms: _Optional[int] = ..., offset: _Optional[int] = ..., shift: _Optional[int] = ..., topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class OffsetChange(_message.Message):
    __slots__ = ("topic", "partition", "before", "after")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    before: int
    after: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., before: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("dry_run", "changes")
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    changes: _containers.RepeatedCompositeFieldContainer[OffsetChange]
    def __init__(self, dry_run: _Optional[bool] = ..., changes: _Optional[_Iterable[_Union[OffsetChange, _Mapping]]] = ...) -> None: ...

class DeleteOffsetsRequest(_message.Message):
    __slots__ = ("group", "partitions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    partitions: _containers.RepeatedCompositeFieldContainer[_common_pb2.TopicPartition]
    def __init__(self, group: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_common_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class DeleteOffsetsResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...
