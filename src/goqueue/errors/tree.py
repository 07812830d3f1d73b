"""The error tree: what can go wrong, as classes whose instances are values with fields.

A class added here wants a row in `goqueue.errors.wire`, unless its parent's row says enough.
"""

from __future__ import annotations


class GoQueueError(Exception):
    """The root. `field` names the offending input, `hint` says how to mend it."""

    field: str | None = None
    hint: str | None = None


# --- what the caller sent -------------------------------------------------------------


class InvalidRequest(GoQueueError):
    """The request cannot mean anything."""

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.hint = hint


class InvalidTopicName(InvalidRequest):
    """Not a name that may become a directory."""

    def __init__(self, name: object) -> None:
        shown = repr(name)[:80]
        super().__init__(
            f"topic name {shown} is not allowed",
            field="name",
            hint="use 1 to 245 of A-Z a-z 0-9 . _ -, but not '.' or '..'",
        )


class ReservedTopicName(InvalidTopicName):
    """A name that only the broker itself may use."""

    def __init__(self, name: object) -> None:
        super().__init__(name)
        self.args = (f"topic name {name!r} is reserved: names that begin with '__' belong to the broker",)
        self.hint = "choose a name that does not begin with '__'"


class TopicNameTooLong(InvalidTopicName):
    """A name that leaves no room for that of its dead-letter topic."""

    def __init__(self, name: str, chars_max: int) -> None:
        super().__init__(name)
        self.args = (f"topic name of {len(name)} characters leaves no room for its dead-letter topic's",)
        self.hint = f"use at most {chars_max} characters"


class InvalidGroupId(InvalidRequest):
    """An empty, endless or unprintable group id."""

    def __init__(self, group: object) -> None:
        super().__init__(
            f"group id {repr(group)[:80]} is not allowed",
            field="group_id",
            hint="use 1 to 255 printable characters",
        )


class InvalidPartitions(InvalidRequest):
    """A partition count that cannot be."""


class InvalidReplicationFactor(InvalidRequest):
    """More copies than there are nodes, or fewer than one."""


class InvalidReplicaAssignment(InvalidRequest):
    """A manual assignment that names unknown nodes or leaves partitions out."""


class InvalidConfig(InvalidRequest):
    """A topic or broker setting that is unknown or out of range."""


class InvalidTimestamp(InvalidRequest):
    """A record whose timestamp is too far from the broker's clock."""


class InvalidRecord(InvalidRequest):
    """A record the topic does not take, such as one without a key in a compacted topic."""


class InvalidRequiredAcks(InvalidRequest):
    """acks is neither 0, 1 nor -1."""


class UnsupportedFormat(InvalidRequest):
    """A message format older than magic 2."""


class UnsupportedCompression(InvalidRequest):
    """A compression type we do not know."""


class MessageTooLarge(InvalidRequest):
    """A batch above the topic's `max.message.bytes`."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"batch of {size} bytes is larger than the limit of {limit}",
            field="value",
            hint="send less at once, or raise the topic's max.message.bytes",
        )


class MalformedRequest(InvalidRequest):
    """Bytes that are no request of the protocol they claim to be."""


class CorruptBatch(InvalidRequest):
    """A batch whose checksum, length or counts do not agree."""


class InternalTopic(InvalidRequest):
    """A client tried to write to, or change, a topic of the broker's own."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} is internal: clients may read it, not change it", field="topic")


# --- what is not there, or there already ----------------------------------------------


class NotFound(GoQueueError):
    """Something named does not exist."""


class TopicNotFound(NotFound):
    """No topic of that name."""

    def __init__(self, topic: str, *, hint: str = "check the name, or create it first") -> None:
        super().__init__(f"there is no topic {topic!r}")
        self.topic = topic
        self.field = "topic"
        self.hint = hint


class TopicIdNotFound(NotFound):
    """No topic of that id."""


class InconsistentTopicId(GoQueueError):
    """The topic of that name has another id: it was deleted and created again."""


class PartitionNotFound(NotFound):
    """The topic has no such partition."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"topic {topic!r} has no partition {partition}")
        self.field = "partition"


class GroupNotFound(NotFound):
    """No group of that id."""

    def __init__(self, group: str) -> None:
        super().__init__(f"there is no group {group!r}")
        self.field = "group_id"


class DelayedMessageNotFound(NotFound):
    """No message waits in that slot: it was delivered or cancelled, or it never was."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"no message of topic {topic!r} waits in slot {partition}/{offset}")
        self.field = "offset"
        self.hint = "it was delivered or cancelled; GET /topics/{topic}/delayed lists what waits"


class ScheduleNotFound(NotFound):
    """No recurring message of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.field = "name"


class Conflict(GoQueueError):
    """The request contradicts what is there."""


class DelayedMessageFiring(Conflict):
    """The message is on its way into its topic."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"the message of topic {topic!r} in slot {partition}/{offset} is being delivered")
        self.field = "offset"
        self.hint = "it is too late to change it: read it from its topic"


class ScheduleExists(Conflict):
    """A recurring message of that name is there already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"schedule {name!r} exists already")
        self.field = "name"
        self.hint = "delete it first, or choose another name"


class TopicExists(Conflict):
    """A topic of that name is there already."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} exists already")
        self.field = "name"


class OffsetOutOfRange(GoQueueError):
    """An offset that the log no longer has, or does not have yet."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside the log, which holds {start} to {end}")
        self.field = "offset"
        self.start = start
        self.end = end


# --- producers ------------------------------------------------------------------------


class ProducerError(GoQueueError):
    """An idempotent or transactional producer broke its contract."""


class OutOfOrderSequence(ProducerError):
    """A gap between the last sequence stored and the one sent."""


class DuplicateSequence(ProducerError):
    """A batch older than the window we remember: stored long ago, offset forgotten."""


class ProducerFenced(ProducerError):
    """A newer epoch of this producer has written."""


class UnknownProducerId(ProducerError):
    """The partition knows nothing of this producer and the batch is not its first."""


class TransactionsUnsupported(ProducerError):
    """A transactional id, while there is no transaction coordinator."""


class InvalidTransactionState(ProducerError):
    """A marker or write that the transaction's state does not allow."""


class TransactionFenced(ProducerFenced):
    """Another process has taken over the transactional id, or its transaction took too long."""


class InvalidProducerIdMapping(ProducerError):
    """The transactional id does not belong to this producer id."""


class ConcurrentTransactions(ProducerError):
    """The transactional id's last transaction is being ended; ask again."""


class InvalidTransactionTimeout(InvalidRequest):
    """A transaction timeout that is not above zero or longer than the broker allows."""


class InvalidTransactionalId(InvalidRequest):
    """An empty, endless or unprintable transactional id."""

    def __init__(self, transactional_id: object) -> None:
        super().__init__(
            f"transactional id {repr(transactional_id)[:80]} is not allowed",
            field="transactional_id",
            hint="use 1 to 255 printable characters",
        )


class TransactionalIdNotFound(NotFound):
    """No transactional id of that name."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"there is no transactional id {transactional_id!r}")
        self.field = "transactional_id"


class ParticipantNotFound(NotFound):
    """A participant that was to be committed is not open: it was aborted, took too long or never was."""

    def __init__(self, participant: str) -> None:
        super().__init__(f"participant {participant!r} is not open: it was aborted, took too long or never was")
        self.field = "participants"
        self.hint = "abort the epoch and write it again"


class WriterNotFound(NotFound):
    """No writer of prepared transactions has that name."""

    def __init__(self, writer: str) -> None:
        super().__init__(f"there is no writer {writer!r}")
        self.field = "writer"


class NotAttempted(GoQueueError):
    """Nothing was done, for another part of the same request was refused."""


# --- groups ---------------------------------------------------------------------------


class GroupError(GoQueueError):
    """A membership or offset request that the group's state refuses."""


class UnknownMember(GroupError):
    """The member is not, or no longer, in the group."""


class IllegalGeneration(GroupError):
    """The generation is not the group's current one."""


class FencedMemberEpoch(GroupError):
    """The member's epoch is not the one the coordinator gave it: it must join again."""


class StaleMemberEpoch(GroupError):
    """The member's epoch is behind; the request may be sent again after a heartbeat."""


class FencedInstance(GroupError):
    """Another process has taken over this static member."""


class UnreleasedInstance(GroupError):
    """The static member's previous process has not left yet."""


class RebalanceInProgress(GroupError):
    """The group is forming a new generation; join again."""


class MemberIdRequired(GroupError):
    """The member must join again with the id it was given."""

    def __init__(self, member_id: str) -> None:
        super().__init__("join again with the member id that was assigned")
        self.member_id = member_id


class InconsistentProtocol(GroupError, Conflict):
    """The member's protocol and the group's have nothing in common."""


class InvalidSessionTimeout(GroupError, InvalidRequest):
    """A session timeout outside the limits of the broker."""


class GroupNotEmpty(GroupError, Conflict):
    """The group has members."""


class GroupSubscribed(GroupError, Conflict):
    """The group is reading the topic whose offsets were to be deleted."""


class GroupModeMismatch(GroupError, Conflict):
    """The group is read the other way: as a queue, or as a stream. `mode` is what it is."""

    def __init__(self, group: str, mode: str, message: str | None = None) -> None:
        super().__init__(message or f"group {group!r} is a {mode} group and cannot be used as the other kind")
        self.mode = mode
        self.field = "group_id"
        self.hint = "use another group, or delete this one first"


class GroupModeRefusesJoin(GroupModeMismatch):
    """The same, told to a member of the classic protocol, which knows a code for it."""


class GroupBeingDeleted(GroupError):
    """The group's deletion was begun and is not complete; ask again."""

    def __init__(self, group: str) -> None:
        super().__init__(f"group {group!r} is being deleted")
        self.field = "group_id"


class GroupFull(GroupError):
    """The group has as many members as it may."""


class UnsupportedAssignor(GroupError, InvalidRequest):
    """A server-side assignor we do not have."""


class InvalidRegex(GroupError, InvalidRequest):
    """A topic pattern that does not compile."""


class OffsetMetadataTooLarge(GroupError, InvalidRequest):
    """More text beside an offset than `offset.metadata.max.bytes` allows."""


class UnstableOffset(GroupError):
    """A transaction that is still open may change these offsets; ask again."""

    def __init__(self, group: str, partitions: tuple[tuple[str, int], ...]) -> None:
        super().__init__(f"an open transaction may change offsets of group {group!r}")
        self.partitions = partitions


class GroupInFlight(GroupError, Conflict):
    """Consumers of the group hold messages, so its position cannot be set."""


# --- share sessions -------------------------------------------------------------------


class ShareSessionError(GroupError):
    """A share consumer's request that its session refuses."""


class ShareSessionNotFound(ShareSessionError):
    """The consumer has no session here: it must begin one."""


class InvalidShareSessionEpoch(ShareSessionError):
    """Not the request that was expected next: the consumer must begin a new session."""


class ShareSessionLimit(ShareSessionError):
    """As many sessions as there may be."""


# --- receipts -------------------------------------------------------------------------


class InvalidReceipt(InvalidRequest):
    """Not a receipt at all."""

    def __init__(self, receipt: object) -> None:
        super().__init__(
            f"{repr(receipt)[:120]} is not a receipt",
            field="receipt_handle",
            hint="send back exactly what was received: topic:partition:offset:deliveryCount:nonce",
        )


class ReceiptNotFound(NotFound):
    """A receipt that was never given out, or whose topic is gone."""

    def __init__(self, receipt: str) -> None:
        super().__init__(f"receipt {receipt[:400]!r} was never given out, or its topic is gone")


class ReceiptExpired(GoQueueError):
    """The message was settled, or its visibility ended and it was delivered again."""

    def __init__(self, receipt: str) -> None:
        super().__init__(f"receipt {receipt[:400]!r} is no longer good: the message was settled or delivered again")
        self.hint = "if the work takes longer, extend the visibility in time"


class NotHeld(GoQueueError):
    """The consumer does not hold the offsets that it wants to settle."""


class CoordinatorLoading(GoQueueError):
    """The coordinator is replaying its log; ask again."""


class CoordinatorUnavailable(GoQueueError):
    """The coordinator lost its log or its leadership; ask again."""


# --- state of the node ----------------------------------------------------------------


class StorageError(GoQueueError):
    """The disk did not do what it was told."""


class CorruptFrame(StorageError):
    """Stored bytes that fail their checksum. Never served, never skipped in silence."""

    def __init__(self, where: str, position: int, reason: str) -> None:
        super().__init__(f"{where} is damaged at byte {position}: {reason}")
        self.where = where
        self.position = position
        self.reason = reason
        self.hint = "run 'goqueue log verify', then 'goqueue log repair' with the broker stopped"


class DamagedIndex(StorageError):
    """A derived file (index, snapshot) that fails its checksum: it is built again from the log."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where} is damaged: {reason}")
        self.where = where
        self.reason = reason


class LogPoisoned(StorageError):
    """A sync failed earlier, so nothing more can be promised for this log until restart."""

    def __init__(self, where: str, cause: str) -> None:
        super().__init__(f"{where} takes no more writes since a sync failed: {cause}")
        self.hint = "check the disk, then restart the broker"


class DiskFull(StorageError):
    """No space left. Reads go on; writes resume when there is room."""

    def __init__(self, where: str) -> None:
        super().__init__(f"no space left on the disk of {where}")
        self.hint = "free some space: writes resume by themselves"


class DataDirectoryInUse(StorageError):
    """Another process holds the data directory."""

    def __init__(self, path: str) -> None:
        super().__init__(f"data directory {path} is in use by another process")
        self.hint = "stop that process, or choose another --data-dir"


class NotLeader(GoQueueError):
    """This node does not lead the partition."""


class FencedLeaderEpoch(GoQueueError):
    """The caller's leader epoch is older than ours."""


class UnknownLeaderEpoch(GoQueueError):
    """The caller's leader epoch is newer than ours."""


class NotEnoughReplicas(GoQueueError):
    """Fewer in-sync replicas than `min.insync.replicas`."""


class RequestTimedOut(GoQueueError):
    """The wait asked for ended before the answer came."""


class TooBusy(GoQueueError):
    """A limit of the node was reached; nothing was done."""


class ShuttingDown(GoQueueError):
    """The node is stopping."""


class ConfigError(GoQueueError):
    """The settings the node was started with, all problems at once."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
