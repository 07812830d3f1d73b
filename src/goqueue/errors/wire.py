"""The one table that says what each error is on every wire.

A front-end never invents a code: it asks `wire_of(error)`, which walks the error's
ancestors until the table answers. Kafka codes are held by number so that this module
needs no protocol library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from goqueue.errors import tree


@dataclass(frozen=True, slots=True)
class Wire:
    """What an error is called on each wire, and whether sending again can help."""

    code: str
    http: int
    kafka: int
    grpc: str
    retriable: bool = False
    # Its number in the API of the schema registry; errors without one have their HTTP status there.
    registry: int | None = None


_TABLE: Mapping[type[tree.GoQueueError], Wire] = MappingProxyType(
    {
        tree.GoQueueError: Wire("internal", 500, -1, "INTERNAL"),
        tree.InvalidRequest: Wire("invalid_request", 400, 42, "INVALID_ARGUMENT"),
        tree.InvalidTopicName: Wire("invalid_topic", 400, 17, "INVALID_ARGUMENT"),
        tree.InvalidGroupId: Wire("invalid_group_id", 400, 24, "INVALID_ARGUMENT"),
        tree.InvalidPartitions: Wire("invalid_partitions", 400, 37, "INVALID_ARGUMENT"),
        tree.InvalidReplicationFactor: Wire("invalid_replication_factor", 400, 38, "INVALID_ARGUMENT"),
        tree.InvalidReplicaAssignment: Wire("invalid_replica_assignment", 400, 39, "INVALID_ARGUMENT"),
        tree.InvalidConfig: Wire("invalid_config", 400, 40, "INVALID_ARGUMENT"),
        tree.InvalidTimestamp: Wire("invalid_timestamp", 400, 32, "INVALID_ARGUMENT"),
        tree.InvalidRecord: Wire("invalid_record", 400, 87, "INVALID_ARGUMENT"),
        tree.InvalidRequiredAcks: Wire("invalid_required_acks", 400, 21, "INVALID_ARGUMENT"),
        tree.UnsupportedFormat: Wire("unsupported_format", 400, 43, "INVALID_ARGUMENT"),
        tree.UnsupportedCompression: Wire("unsupported_compression", 400, 76, "INVALID_ARGUMENT"),
        tree.MessageTooLarge: Wire("message_too_large", 413, 10, "INVALID_ARGUMENT"),
        tree.CorruptBatch: Wire("corrupt_message", 400, 2, "DATA_LOSS", retriable=True),
        tree.InternalTopic: Wire("internal_topic", 403, 17, "PERMISSION_DENIED"),
        tree.NotFound: Wire("not_found", 404, -1, "NOT_FOUND"),
        tree.TopicNotFound: Wire("topic_not_found", 404, 3, "NOT_FOUND", retriable=True),
        tree.TopicIdNotFound: Wire("topic_not_found", 404, 100, "NOT_FOUND", retriable=True),
        tree.InconsistentTopicId: Wire("inconsistent_topic_id", 409, 103, "FAILED_PRECONDITION", retriable=True),
        tree.PartitionNotFound: Wire("partition_not_found", 404, 3, "NOT_FOUND", retriable=True),
        tree.GroupNotFound: Wire("group_not_found", 404, 69, "NOT_FOUND"),
        tree.DelayedMessageNotFound: Wire("delayed_message_not_found", 404, -1, "NOT_FOUND"),
        tree.TraceNotFound: Wire("trace_not_found", 404, -1, "NOT_FOUND"),
        tree.ScheduleNotFound: Wire("schedule_not_found", 404, -1, "NOT_FOUND"),
        tree.DelayedMessageFiring: Wire("delayed_message_firing", 409, 42, "FAILED_PRECONDITION"),
        tree.ScheduleExists: Wire("schedule_exists", 409, 42, "ALREADY_EXISTS"),
        tree.Conflict: Wire("conflict", 409, 42, "FAILED_PRECONDITION"),
        tree.TopicExists: Wire("topic_exists", 409, 36, "ALREADY_EXISTS"),
        tree.OffsetOutOfRange: Wire("offset_out_of_range", 416, 1, "OUT_OF_RANGE"),
        tree.ProducerError: Wire("producer_error", 409, 42, "FAILED_PRECONDITION"),
        tree.OutOfOrderSequence: Wire("out_of_order_sequence", 409, 45, "FAILED_PRECONDITION"),
        tree.DuplicateSequence: Wire("duplicate_sequence", 409, 46, "ALREADY_EXISTS"),
        tree.ProducerFenced: Wire("producer_fenced", 409, 47, "FAILED_PRECONDITION"),
        # Clients give up at once on this code, and retry for ever on those that would say more.
        tree.TransactionsUnsupported: Wire("transactions_unsupported", 501, 53, "UNIMPLEMENTED"),
        tree.InvalidTransactionState: Wire("invalid_transaction_state", 409, 48, "FAILED_PRECONDITION"),
        tree.CoordinatorFenced: Wire("coordinator_fenced", 409, 52, "FAILED_PRECONDITION"),
        tree.TransactionFenced: Wire("transaction_fenced", 409, 90, "FAILED_PRECONDITION"),
        tree.InvalidProducerIdMapping: Wire("invalid_producer_id_mapping", 409, 49, "FAILED_PRECONDITION"),
        tree.ConcurrentTransactions: Wire("concurrent_transactions", 409, 51, "ABORTED", retriable=True),
        tree.InvalidTransactionTimeout: Wire("invalid_transaction_timeout", 400, 50, "INVALID_ARGUMENT"),
        tree.InvalidTransactionalId: Wire("invalid_transactional_id", 400, 42, "INVALID_ARGUMENT"),
        tree.TransactionalIdNotFound: Wire("transactional_id_not_found", 404, 105, "NOT_FOUND"),
        tree.ParticipantNotFound: Wire("participant_not_found", 404, 105, "NOT_FOUND"),
        tree.WriterNotFound: Wire("writer_not_found", 404, 105, "NOT_FOUND"),
        tree.NotAttempted: Wire("not_attempted", 409, 55, "ABORTED"),
        tree.GroupError: Wire("group_error", 409, 42, "FAILED_PRECONDITION"),
        tree.UnknownMember: Wire("unknown_member", 404, 25, "NOT_FOUND"),
        tree.IllegalGeneration: Wire("illegal_generation", 409, 22, "FAILED_PRECONDITION"),
        tree.FencedMemberEpoch: Wire("fenced_member_epoch", 409, 110, "FAILED_PRECONDITION"),
        tree.StaleMemberEpoch: Wire("stale_member_epoch", 409, 113, "FAILED_PRECONDITION", retriable=True),
        tree.FencedInstance: Wire("fenced_instance", 409, 82, "FAILED_PRECONDITION"),
        tree.UnreleasedInstance: Wire("unreleased_instance", 409, 111, "FAILED_PRECONDITION"),
        tree.RebalanceInProgress: Wire("rebalance_in_progress", 409, 27, "ABORTED", retriable=True),
        tree.MemberIdRequired: Wire("member_id_required", 409, 79, "FAILED_PRECONDITION"),
        tree.InconsistentProtocol: Wire("inconsistent_group_protocol", 409, 23, "FAILED_PRECONDITION"),
        tree.InvalidSessionTimeout: Wire("invalid_session_timeout", 400, 26, "INVALID_ARGUMENT"),
        tree.GroupNotEmpty: Wire("group_not_empty", 409, 68, "FAILED_PRECONDITION"),
        tree.GroupSubscribed: Wire("group_subscribed", 409, 86, "FAILED_PRECONDITION"),
        tree.GroupModeMismatch: Wire("group_mode_mismatch", 409, 69, "FAILED_PRECONDITION"),
        tree.GroupModeRefusesJoin: Wire("group_mode_mismatch", 409, 23, "FAILED_PRECONDITION"),
        tree.GroupBeingDeleted: Wire("group_being_deleted", 503, 15, "UNAVAILABLE", retriable=True),
        tree.GroupFull: Wire("group_full", 429, 81, "RESOURCE_EXHAUSTED"),
        tree.UnsupportedAssignor: Wire("unsupported_assignor", 400, 112, "INVALID_ARGUMENT"),
        tree.InvalidRegex: Wire("invalid_regular_expression", 400, 128, "INVALID_ARGUMENT"),
        tree.OffsetMetadataTooLarge: Wire("offset_metadata_too_large", 400, 12, "INVALID_ARGUMENT"),
        tree.UnstableOffset: Wire("unstable_offset", 409, 88, "ABORTED", retriable=True),
        tree.GroupInFlight: Wire("group_in_flight", 409, 68, "FAILED_PRECONDITION"),
        tree.ShareSessionNotFound: Wire("share_session_not_found", 404, 122, "NOT_FOUND", retriable=True),
        tree.InvalidShareSessionEpoch: Wire("invalid_share_session_epoch", 409, 123, "ABORTED", retriable=True),
        tree.ShareSessionLimit: Wire("share_session_limit", 429, 133, "RESOURCE_EXHAUSTED", retriable=True),
        tree.InvalidReceipt: Wire("invalid_receipt", 400, 42, "INVALID_ARGUMENT"),
        tree.ReceiptNotFound: Wire("receipt_not_found", 404, 121, "NOT_FOUND"),
        tree.ReceiptExpired: Wire("receipt_expired", 410, 121, "FAILED_PRECONDITION"),
        tree.NotHeld: Wire("not_held", 409, 121, "FAILED_PRECONDITION"),
        tree.SchemasNotInstalled: Wire("schemas_not_installed", 501, -1, "UNIMPLEMENTED"),
        tree.InvalidSchema: Wire("invalid_schema", 422, 42, "INVALID_ARGUMENT", registry=42201),
        tree.SchemaTooLarge: Wire("schema_too_large", 422, 42, "INVALID_ARGUMENT", registry=42209),
        tree.InvalidSubject: Wire("invalid_subject", 422, 42, "INVALID_ARGUMENT", registry=42208),
        tree.InvalidVersion: Wire("invalid_version", 422, 42, "INVALID_ARGUMENT", registry=42202),
        tree.InvalidCompatibility: Wire("invalid_compatibility", 422, 42, "INVALID_ARGUMENT", registry=42203),
        tree.InvalidMode: Wire("invalid_mode", 422, 42, "INVALID_ARGUMENT", registry=42204),
        tree.OperationNotPermitted: Wire("operation_not_permitted", 422, 42, "FAILED_PRECONDITION", registry=42205),
        tree.ReferenceExists: Wire("reference_exists", 422, 42, "FAILED_PRECONDITION", registry=42206),
        tree.IdDoesNotMatch: Wire("id_does_not_match", 422, 42, "FAILED_PRECONDITION", registry=42207),
        tree.TooManySchemas: Wire("too_many_schemas", 422, 42, "RESOURCE_EXHAUSTED", registry=42209),
        tree.IncompatibleSchema: Wire("incompatible_schema", 409, 42, "FAILED_PRECONDITION", registry=409),
        tree.SubjectNotFound: Wire("subject_not_found", 404, -1, "NOT_FOUND", registry=40401),
        tree.VersionNotFound: Wire("version_not_found", 404, -1, "NOT_FOUND", registry=40402),
        tree.SchemaNotFound: Wire("schema_not_found", 404, -1, "NOT_FOUND", registry=40403),
        tree.SubjectSoftDeleted: Wire("subject_soft_deleted", 404, -1, "NOT_FOUND", registry=40404),
        tree.SubjectNotSoftDeleted: Wire("subject_not_soft_deleted", 404, -1, "NOT_FOUND", registry=40405),
        tree.VersionSoftDeleted: Wire("version_soft_deleted", 404, -1, "NOT_FOUND", registry=40406),
        tree.VersionNotSoftDeleted: Wire("version_not_soft_deleted", 404, -1, "NOT_FOUND", registry=40407),
        tree.NoSubjectConfig: Wire("no_subject_config", 404, -1, "NOT_FOUND", registry=40408),
        tree.NoSubjectMode: Wire("no_subject_mode", 404, -1, "NOT_FOUND", registry=40409),
        tree.NoAssociations: Wire("no_associations", 404, -1, "NOT_FOUND", registry=404),
        tree.InvalidValue: Wire("invalid_value", 400, 87, "INVALID_ARGUMENT"),
        tree.CoordinatorUnavailable: Wire("coordinator_unavailable", 503, 15, "UNAVAILABLE", retriable=True),
        tree.NotCoordinator: Wire("not_coordinator", 503, 16, "UNAVAILABLE", retriable=True),
        tree.StorageError: Wire("storage_error", 500, 56, "INTERNAL", retriable=True),
        tree.CorruptFrame: Wire("corrupt_frame", 500, 2, "DATA_LOSS"),
        tree.LogPoisoned: Wire("storage_failed", 503, 56, "UNAVAILABLE", retriable=True),
        tree.DiskFull: Wire("disk_full", 507, 56, "RESOURCE_EXHAUSTED", retriable=True),
        # Nothing was stored and the leader is right, so that a client need only send again.
        tree.TooManyOpenFiles: Wire("too_many_open_files", 503, 19, "RESOURCE_EXHAUSTED", retriable=True),
        tree.DataDirectoryInUse: Wire("data_directory_in_use", 503, 56, "UNAVAILABLE"),
        tree.GuardFailed: Wire("metadata_changed", 409, 7, "ABORTED", retriable=True),
        tree.MetadataUnavailable: Wire("metadata_unavailable", 503, 7, "UNAVAILABLE", retriable=True),
        tree.UnsupportedFeatureLevel: Wire("unsupported_feature_level", 409, 95, "FAILED_PRECONDITION"),
        tree.NotLeader: Wire("not_leader", 503, 6, "UNAVAILABLE", retriable=True),
        tree.FencedLeaderEpoch: Wire("fenced_leader_epoch", 409, 74, "FAILED_PRECONDITION", retriable=True),
        tree.UnknownLeaderEpoch: Wire("unknown_leader_epoch", 409, 75, "FAILED_PRECONDITION", retriable=True),
        tree.NotEnoughReplicas: Wire("not_enough_replicas", 503, 19, "UNAVAILABLE", retriable=True),
        tree.NotEnoughReplicasAfterAppend: Wire(
            "not_enough_replicas_after_append", 503, 20, "UNAVAILABLE", retriable=True
        ),
        tree.OffsetNotAvailable: Wire("offset_not_available", 503, 78, "UNAVAILABLE", retriable=True),
        tree.ElectionNotNeeded: Wire("election_not_needed", 409, 84, "FAILED_PRECONDITION"),
        tree.LeaderNotElectable: Wire("leader_not_electable", 409, 80, "FAILED_PRECONDITION"),
        tree.NoReassignment: Wire("no_reassignment", 409, 85, "FAILED_PRECONDITION"),
        tree.PeerUnreachable: Wire("peer_unreachable", 503, 13, "UNAVAILABLE", retriable=True),
        # Perhaps it was done: a client that has sequences sends it again under the same ones.
        tree.PeerLost: Wire("peer_lost", 503, 7, "UNAVAILABLE", retriable=True),
        tree.UnknownPeerCall: Wire("unknown_peer_call", 503, 35, "UNIMPLEMENTED"),
        tree.RequestTimedOut: Wire("timeout", 504, 7, "DEADLINE_EXCEEDED", retriable=True),
        tree.TooBusy: Wire("too_busy", 429, 89, "RESOURCE_EXHAUSTED", retriable=True),
        tree.ShuttingDown: Wire("shutting_down", 503, 15, "UNAVAILABLE", retriable=True),
        tree.AuthenticationFailed: Wire("authentication_failed", 401, 58, "UNAUTHENTICATED"),
        tree.AuthenticationRequired: Wire("authentication_required", 401, 58, "UNAUTHENTICATED"),
        tree.UnsupportedMechanism: Wire("unsupported_sasl_mechanism", 400, 33, "UNAUTHENTICATED"),
        tree.IllegalSaslState: Wire("illegal_sasl_state", 400, 34, "UNAUTHENTICATED"),
        tree.UnsupportedMediaType: Wire("unsupported_media_type", 415, 42, "INVALID_ARGUMENT"),
        tree.ForbiddenOrigin: Wire("forbidden_origin", 403, 42, "PERMISSION_DENIED"),
        tree.NotAuthorized: Wire("not_authorized", 403, 31, "PERMISSION_DENIED"),
        tree.TopicNotAuthorized: Wire("topic_not_authorized", 403, 29, "PERMISSION_DENIED"),
        tree.GroupNotAuthorized: Wire("group_not_authorized", 403, 30, "PERMISSION_DENIED"),
        tree.TransactionalIdNotAuthorized: Wire("transactional_id_not_authorized", 403, 53, "PERMISSION_DENIED"),
        tree.ClusterNotAuthorized: Wire("cluster_not_authorized", 403, 31, "PERMISSION_DENIED"),
        tree.ConfigError: Wire("config_error", 500, -1, "INTERNAL"),
    }
)


_BY_CODE: Mapping[str, Wire] = MappingProxyType({wire.code: wire for wire in reversed(list(_TABLE.values()))})


def wire_of_code(code: str) -> Wire | None:
    """What the errors with this code are on each wire; None for a code that this version does not know."""
    return _BY_CODE.get(code)


def wire_of(error: BaseException) -> Wire:
    """What this error is on each wire: the nearest ancestor in the table decides."""
    for ancestor in type(error).__mro__:
        if ancestor in _TABLE:
            return _TABLE[ancestor]
    return _TABLE[tree.GoQueueError]
