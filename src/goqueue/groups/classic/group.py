"""A classic group: its members, its generation, and what can be read off them.

Nothing here decides anything; `classic.py` does. A group lives in memory and is written
down whenever a generation is complete or empty, so `record` and `load` are inverses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from goqueue.errors import FencedInstance, UnknownMember
from goqueue.groups.classic.client_metadata import CONSUMER_PROTOCOL_TYPE, EAGER_PROTOCOL_TYPE, subscribed_topics
from goqueue.groups.commands import JoinedMember
from goqueue.groups.descriptions import ClassicDescription, ClassicMemberDescription, GroupState
from goqueue.groups.records import ClassicGroupRecord, ClassicMemberRecord


@dataclass(slots=True)
class ClassicMember:
    """A member. Tickets are of requests whose answer it is waiting for."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    # It has never been in a complete generation, so it does not send heartbeats yet.
    is_new: bool = False

    @property
    def awaits_join(self) -> bool:
        """Whether it has asked to be in the next generation."""
        return self.join_ticket is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said about itself for this protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The candidate it likes best."""
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    """Members in the order in which they came, and where the group stands."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.changed_ms = 0
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        # Ids that were given to newcomers who have not come back with them yet.
        self.pending: set[str] = set()
        # Members of this generation that have not asked for their assignment yet.
        self.unsynced: set[str] = set()
        # The first generation is being formed: until when it may wait for more members.
        self.initial_until_ms: int | None = None
        self.joined_meanwhile = False
        # Not durable: the version of the topics that an assignment made on this side was last compared with.
        self.topics_version = -1
        # The last record written, which is all that a restart would know.
        self.stored: ClassicGroupRecord | None = None

    # --- what is written down ---------------------------------------------------------

    def record(self) -> ClassicGroupRecord:
        """The group as it must be found again after a restart."""
        return ClassicGroupRecord(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            changed_ms=self.changed_ms,
            members=tuple(
                ClassicMemberRecord(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.session_timeout_ms,
                    member.rebalance_timeout_ms,
                    member.protocols,
                    member.assignment,
                )
                for member in self.members.values()
            ),
        )

    def load(self, record: ClassicGroupRecord) -> None:
        """Become what the record says. A record of our own making changes nothing but `stored`."""
        self.stored = record
        if self.state in {GroupState.STABLE, GroupState.EMPTY} and record == self.record():
            return
        self.state = GroupState.STABLE if record.members else GroupState.EMPTY
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        self.leader = record.leader
        self.changed_ms = record.changed_ms
        self.members = {
            member.member_id: ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.protocols,
                member.assignment,
            )
            for member in record.members
        }
        self.static = {one.instance_id: one.member_id for one in record.members if one.instance_id is not None}

    # --- members ----------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take a member in; the first decides what kind of protocol the group speaks."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member; if it led, the one that came next leads."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, old_id: str, new_id: str) -> ClassicMember:
        """A static member comes back under a new id and takes its old place."""
        self.members = {
            (new_id if member_id == old_id else member_id): member for member_id, member in self.members.items()
        }
        member = self.members[new_id]
        member.member_id = new_id
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that speaks, or the error that tells it who it is not (KIP-345)."""
        if instance_id is not None:
            current_id = self.static.get(instance_id)
            if current_id is None:
                raise UnknownMember(f"group {self.group_id!r} has no static member {instance_id!r}")
            if current_id != member_id:
                raise FencedInstance(f"static member {instance_id!r} is now {current_id!r}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"{member_id!r} is not a member of group {self.group_id!r}")
        return member

    # --- what can be read off ---------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        """Whether everybody who is expected in the next generation has asked for it."""
        return not self.pending and all(member.awaits_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Whether a member with these protocols can be in the group."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol that all speak and most prefer; the older member decides a tie."""
        common = self._common_protocols()
        votes = Counter(member.vote(common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that its members read, or None when that cannot be known."""
        if not self.members:
            return frozenset()
        if self.protocol_type not in {CONSUMER_PROTOCOL_TYPE, EAGER_PROTOCOL_TYPE}:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            read = subscribed_topics(member.metadata(self.protocol or member.protocols[0][0]))
            if read is None:
                return None
            topics |= read
        return frozenset(topics)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The generation, as its leader needs it."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    def description(self) -> ClassicDescription:
        """The group as it stands."""
        settled = self.state is GroupState.STABLE
        return ClassicDescription(
            group=self.group_id,
            state=self.state,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=(self.protocol or "") if settled else "",
            leader=self.leader,
            members=tuple(
                ClassicMemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    # Between generations nobody's subscription or assignment is the group's.
                    member.metadata(self.protocol) if settled else b"",
                    member.assignment if settled else b"",
                )
                for member in self.members.values()
            ),
        )

    def _common_protocols(self) -> set[str]:
        sets = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*sets)
