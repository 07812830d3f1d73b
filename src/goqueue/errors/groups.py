"""Errors of groups: membership, committed offsets, and the way a group is read."""

from __future__ import annotations

from goqueue.errors.base import Conflict, GoQueueError, InvalidRequest, NotFound


class InvalidGroupId(InvalidRequest):
    """An empty, endless or unprintable group id."""

    def __init__(self, group: object) -> None:
        super().__init__(
            f"group id {repr(group)[:80]} is not allowed",
            field="group_id",
            hint="use 1 to 255 printable characters",
        )


class GroupNotFound(NotFound):
    """No group of that id."""

    def __init__(self, group: str) -> None:
        super().__init__(f"there is no group {group!r}")
        self.field = "group_id"


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
        other = "stream" if mode == "queue" else "queue"
        super().__init__(message or f"group {group!r} is a {mode} group and cannot read as a {other}")
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
