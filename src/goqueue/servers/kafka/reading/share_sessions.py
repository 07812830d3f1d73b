"""Share sessions (KIP-932): which partitions a share consumer fetches from, so that it need not repeat them.

A session begins with epoch 0, its requests count up from 1, and -1 ends it. It belongs to the
connection that opened it: when that is lost, so is the session, and what its consumer holds is
given back at once instead of when the locks run out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from goqueue.errors import InvalidRequest, InvalidShareSessionEpoch, ShareSessionLimit, ShareSessionNotFound
from goqueue.groups.subscription.topic_partitions import TopicIdPartition

OPEN_EPOCH = 0
CLOSE_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

# A consumer of a group, by its member id.
ShareMember = tuple[str, str]


@dataclass(slots=True)
class ShareSession:
    """One consumer's session. `partitions` in the order in which they were added."""

    connection: object
    epoch: int = 1
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)
    # Which partition is asked first; it moves on, so that none waits behind the others for ever.
    turn: int = 0

    def rotated(self) -> list[TopicIdPartition]:
        """The partitions, each time beginning with another."""
        all_of_them = list(self.partitions)
        at = self.turn % len(all_of_them) if all_of_them else 0
        self.turn += 1
        return all_of_them[at:] + all_of_them[:at]


class ShareSessions:
    """All sessions of a node. At most so many: one more is refused, and its consumer tries again later."""

    def __init__(self, sessions_max: int = 2_000) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[ShareMember, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, member: ShareMember, partitions: Iterable[TopicIdPartition], connection: object) -> ShareSession:
        """Begin a session, instead of the one the consumer had if it had one."""
        if member not in self._sessions and len(self._sessions) >= self._sessions_max:
            raise ShareSessionLimit(f"there are {self._sessions_max} share sessions already")
        session = ShareSession(connection, partitions=dict.fromkeys(partitions))
        self._sessions[member] = session
        return session

    def go_on(self, member: ShareMember, epoch: int) -> ShareSession:
        """The session of a request with this epoch; the next must have the one that follows."""
        session = self._sessions.get(member)
        if session is None:
            raise ShareSessionNotFound(f"consumer {member[1]!r} of group {member[0]!r} has no share session")
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"share session epoch is {epoch}, expected {session.epoch}")
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session

    def close(self, member: ShareMember) -> None:
        """End a session."""
        if self._sessions.pop(member, None) is None:
            raise ShareSessionNotFound(f"consumer {member[1]!r} of group {member[0]!r} has no share session")

    def connection_lost(self, connection: object) -> list[ShareMember]:
        """End the sessions that this connection opened; returns whose they were."""
        lost = [member for member, session in self._sessions.items() if session.connection is connection]
        for member in lost:
            del self._sessions[member]
        return lost


def share_member(group: str | None, member_id: str | None) -> ShareMember:
    """Whose request it is; both names must be there."""
    if not group:
        raise InvalidRequest("a share request must name its group", field="group_id")
    if not member_id:
        raise InvalidRequest("a share request must name its member", field="member_id")
    return group, member_id
