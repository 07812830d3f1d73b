"""Errors of the node itself: its disk, its coordinators, its place in the cluster, its limits."""

from __future__ import annotations

from goqueue.errors.base import Conflict, GoQueueError


class StorageError(GoQueueError):
    """The disk did not do what it was told."""


class CorruptFrame(StorageError):
    """Stored bytes that fail their checksum. Never served, never skipped in silence."""

    def __init__(self, where: str, position: int, reason: str, *, next_offset: int | None = None) -> None:
        super().__init__(f"{where} is damaged at byte {position}: {reason}")
        # Where the log can be read again, if whoever found the damage knows.
        self.next_offset = next_offset
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


class TooManyOpenFiles(StorageError):
    """The process may open no more files. Nothing was written; files become free by themselves."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} cannot be opened: the broker has as many files open as it may have")
        self.hint = "try again; raise the limit of open files (ulimit -n) if it happens often"


class DataDirectoryInUse(StorageError):
    """Another process holds the data directory."""

    def __init__(self, path: str) -> None:
        super().__init__(f"data directory {path} is in use by another process")
        self.hint = "stop that process, or choose another --data-dir"


class CoordinatorUnavailable(GoQueueError):
    """The coordinator lost its log or its leadership; ask again."""


class NotCoordinator(CoordinatorUnavailable):
    """Another node coordinates what was asked about. Says which, where that is known."""

    def __init__(self, message: str, *, leader: int = -1) -> None:
        super().__init__(message)
        self.leader = leader


class GuardFailed(Conflict):
    """Metadata changed since the change was worked out: work it out anew."""

    def __init__(self, key: str, expected: int, found: int) -> None:
        super().__init__(f"metadata key {key!r} has revision {found}, not {expected}: somebody else changed it")
        self.key = key
        self.hint = "read it again and repeat the change"


class MetadataUnavailable(GoQueueError):
    """The store of metadata cannot be reached, or the node has lost its session with it."""


class SessionEnded(MetadataUnavailable):
    """The node has lost its session with the store of metadata, and changes nothing until it has another."""


class UnsupportedFeatureLevel(GoQueueError):
    """A feature level is not known to this version, or not yet finalised."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NotLeader(GoQueueError):
    """This node does not lead the partition, or does so no more. Says who does, where that is known."""

    def __init__(self, message: str, *, leader: int = -1, leader_epoch: int = -1, may_be_done: bool = False) -> None:
        """`may_be_done`: it was written in a term that ended before it was safe, and the next leader has it, or not."""
        super().__init__(message)
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.may_be_done = may_be_done


class FencedLeaderEpoch(GoQueueError):
    """The caller's leader epoch is older than ours."""


class UnknownLeaderEpoch(GoQueueError):
    """The caller's leader epoch is newer than ours."""


class NotEnoughReplicas(GoQueueError):
    """Fewer in-sync replicas than `min.insync.replicas`. Nothing was written."""


class NotEnoughReplicasAfterAppend(GoQueueError):
    """Written, but the in-sync replicas fell below `min.insync.replicas` before all of them had it."""


class OffsetNotAvailable(GoQueueError):
    """A new leader does not know yet up to where its log is committed; ask again."""


class ElectionNotNeeded(GoQueueError):
    """The partition has the leader that was asked for."""


class LeaderNotElectable(GoQueueError):
    """No replica that was asked for as leader is alive and in sync."""


class NoReassignment(GoQueueError):
    """The partition's replicas are not being changed."""


class PeerUnreachable(GoQueueError):
    """Another node of the cluster cannot be reached, or its connection broke."""

    def __init__(self, node_id: int, reason: str) -> None:
        super().__init__(f"node {node_id} cannot be reached: {reason}")
        self.node_id = node_id
        self.reason = reason


class PeerRefused(PeerUnreachable):
    """Another node was reached, but one of the two does not accept the other."""


class PeerLost(PeerUnreachable):
    """The connection broke after a call was sent: it may have been done there, or not."""

    may_be_done = True


class UnknownPeerCall(GoQueueError):
    """A call between nodes that this version does not know."""

    def __init__(self, method: str) -> None:
        super().__init__(f"this node does not know the call {method[:80]!r} of another node")
        self.hint = "a node of another version asks: finish the upgrade of the cluster"


class RequestTimedOut(GoQueueError):
    """The wait asked for ended before the answer came."""


class TooBusy(GoQueueError):
    """A limit of the node was reached; nothing was done."""


class ShuttingDown(GoQueueError):
    """The node is stopping."""


class StartInterrupted(ShuttingDown):
    """The node was asked to stop while its start waited for other nodes."""


class ConfigError(GoQueueError):
    """The settings the node was started with, all problems at once."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
