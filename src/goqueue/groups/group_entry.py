"""An entry of the group table: all that goes by one group id.

A group speaks one protocol at a time. Its offsets, or that it is a queue, outlive a change of
protocol, so they belong to neither.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from goqueue.groups.classic.client_metadata import CONSUMER_PROTOCOL_TYPE
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription, GroupState, GroupType, ListedGroup
from goqueue.groups.offsets.offset_table import OffsetTable
from goqueue.groups.outbox import Outbox
from goqueue.groups.queue.settings import Mode, Sharing, settings_of
from goqueue.groups.queue.share_group import ShareGroup
from goqueue.groups.records import (
    ClassicGroupKey,
    ClassicGroupRecord,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    CurrentKey,
    CurrentRecord,
    Key,
    MemberKey,
    MemberRecord,
    OffsetKey,
    OffsetRecord,
    QueueKey,
    QueueRecord,
    SettingsKey,
    SettingsRecord,
    ShareGroupKey,
    ShareGroupRecord,
    ShareMemberKey,
    TargetKey,
    TargetRecord,
    Value,
)
from goqueue.groups.subscription.subscriptions import Subscriptions
from goqueue.metadata.events import GroupSettings

# What groups that share partitions are listed as; Kafka's own word.
SHARE_PROTOCOL_TYPE = "share"


class GroupEntry:
    """The group of one id, in whichever protocol, its offsets, and whether it is read as a queue."""

    __slots__ = ("classic", "consumer", "group_id", "offsets", "queue", "settings", "share")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.classic: ClassicGroup | None = None
        self.consumer: ConsumerGroup | None = None
        self.share: ShareGroup | None = None
        self.offsets = OffsetTable(group_id)
        # Outlives members and protocols, as offsets do; None: a stream group, if it is anything.
        self.queue: QueueRecord | None = None
        # May be there before the group is, and is then not yet a use of the id.
        self.settings: SettingsRecord | None = None

    # --- records ----------------------------------------------------------------------

    def apply(self, key: Key, value: Value | None) -> None:
        """Take in one record."""
        match key, value:
            case OffsetKey(), OffsetRecord() | None:
                self.offsets.apply(key, value)
            case QueueKey(), QueueRecord() | None:
                self.queue = value
            case SettingsKey(), SettingsRecord() | None:
                self.settings = value
            case ShareGroupKey(), ShareGroupRecord() | None:
                self.share = self.share or ShareGroup(self.group_id)
                self.share.apply_group(value)
            case ShareMemberKey(), MemberRecord() | None:
                self.share = self.share or ShareGroup(self.group_id)
                self.share.apply_member(key.member_id, value)
            case ClassicGroupKey(), ClassicGroupRecord():
                self.classic = self.classic or ClassicGroup(self.group_id)
                self.classic.load(value)
            case ClassicGroupKey(), None:
                self.classic = None
            case _:
                self._apply_to_consumer(key, value)
        self.tidy()

    def _apply_to_consumer(self, key: Key, value: Value | None) -> None:
        self.consumer = self.consumer or ConsumerGroup(self.group_id)
        match key, value:
            case ConsumerGroupKey(), ConsumerGroupRecord() | None:
                self.consumer.apply_group(value)
            case MemberKey(), MemberRecord() | None:
                self.consumer.apply_member(key.member_id, value)
            case TargetKey(), TargetRecord() | None:
                self.consumer.apply_target(key.member_id, value)
            case CurrentKey(), CurrentRecord() | None:
                self.consumer.apply_current(key.member_id, value)

    def write_all(self, out: Outbox) -> None:
        """Every record that this entry is made of."""
        for key, record in self.offsets.records():
            out.write(key, record)
        if self.queue is not None:
            out.write(QueueKey(self.group_id), self.queue)
        if self.settings is not None:
            out.write(SettingsKey(self.group_id), self.settings)
        if self.classic is not None and self.classic.stored is not None:
            out.write(ClassicGroupKey(self.group_id), self.classic.stored)
        if self.consumer is not None:
            self.consumer.write_all(out)
        if self.share is not None:
            self.share.write_all(out)

    def former_settings(self) -> GroupSettings:
        """What was set for the group before settings were metadata."""
        own, queue = self.settings or SettingsRecord(), self.queue
        if queue is None or queue.is_deleting:
            return GroupSettings(own.session_timeout_ms, own.heartbeat_interval_ms, own.isolation)
        return GroupSettings(
            own.session_timeout_ms, own.heartbeat_interval_ms, own.isolation, queue.start, queue.policy
        )

    def drop_settings(self, out: Outbox) -> None:
        """The metadata has them now."""
        if self.settings is not None:
            out.write(SettingsKey(self.group_id), None)
        if self.queue is not None and (self.queue.policy or self.queue.start):
            out.write(QueueKey(self.group_id), msgspec.structs.replace(self.queue, policy={}, start=""))

    def write_group_tombstones(self, out: Outbox) -> None:
        """The group is to be forgotten, in whichever protocol; its offsets, or that it is a queue, stay."""
        if self.classic is not None and self.classic.stored is not None:
            out.write(ClassicGroupKey(self.group_id), None)
        if self.consumer is not None:
            self.consumer.write_tombstones(out)
        if self.share is not None:
            self.share.write_tombstones(out)

    def tidy(self) -> None:
        """Drop what nothing is left of."""
        if self.consumer is not None and self.consumer.is_gone:
            self.consumer = None
        if self.share is not None and self.share.is_gone:
            self.share = None
        classic = self.classic
        if classic is not None and classic.stored is None and not classic.members and not classic.pending:
            self.classic = None

    # --- what can be read off ---------------------------------------------------------

    @property
    def is_bare(self) -> bool:
        """Whether there is no group of this id; settings alone make none."""
        return self._group is None and self.queue is None and not self.offsets

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to keep: no group, and no settings for one."""
        return self.is_bare and self.settings is None

    @property
    def is_deleting(self) -> bool:
        """Whether a queue group's deletion has begun."""
        return self.queue is not None and self.queue.is_deleting

    @property
    def mode(self) -> Mode | None:
        """How the group is read; None while nothing goes by this id."""
        if self.queue is not None:
            return Mode.QUEUE
        return None if self.is_bare else Mode.STREAM

    @property
    def state(self) -> GroupState:
        """Where the group stands; offsets alone are an empty group."""
        return GroupState.EMPTY if self._group is None else self._group.state

    @property
    def changed_ms(self) -> int:
        """When the group last changed its members."""
        return 0 if self._group is None else self._group.changed_ms

    @property
    def is_shared(self) -> bool:
        """Whether the members of this queue group share partitions, or will when there are any."""
        return self.queue is not None and self.queue.sharing != Sharing.EXCLUSIVE

    @property
    def _group(self) -> ClassicGroup | ConsumerGroup | ShareGroup | None:
        return self.consumer or self.share or self.classic

    @property
    def _takes_turns(self) -> bool:
        """Whether the group uses the consumer protocol, as a queue group does that has had no member yet."""
        return self.consumer is not None or (self.queue is not None and self.classic is None)

    def listed(self) -> ListedGroup:
        """The group in a list."""
        mode = self.mode or Mode.STREAM
        if self.is_shared:
            return ListedGroup(self.group_id, GroupType.SHARE, self.state, SHARE_PROTOCOL_TYPE, mode)
        if self._takes_turns:
            return ListedGroup(self.group_id, GroupType.CONSUMER, self.state, CONSUMER_PROTOCOL_TYPE, mode)
        protocol_type = self.classic.protocol_type if self.classic else ""
        return ListedGroup(self.group_id, GroupType.CLASSIC, self.state, protocol_type, mode)

    def description(self, subscriptions: Subscriptions) -> ClassicDescription | ConsumerDescription:
        """The group as it stands."""
        description: ClassicDescription | ConsumerDescription
        if self.is_shared:
            description = (self.share or ShareGroup(self.group_id)).description(subscriptions)
        elif self._takes_turns:
            description = (self.consumer or ConsumerGroup(self.group_id)).description()
        else:
            description = (self.classic or ClassicGroup(self.group_id)).description()
        return (
            description if self.queue is None else msgspec.structs.replace(description, queue=settings_of(self.queue))
        )

    def reads(self, subscriptions: Subscriptions) -> Callable[[str], bool]:
        """Whether a topic is being read by members; if that cannot be known, every topic is."""
        if self.consumer is not None:
            names = frozenset[str]().union(
                *(subscriptions.names_of(member.subscription) for member in self.consumer.members.values())
            )
            return names.__contains__
        if self.share is not None:
            return lambda _: False
        topics = self.classic.subscribed_topics() if self.classic is not None else frozenset[str]()
        return (lambda _: True) if topics is None else topics.__contains__
