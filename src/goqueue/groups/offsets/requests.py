"""Requests about offsets: who may commit, read and delete them, and when they are too old."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from goqueue.config import GroupsConfig
from goqueue.errors import GoQueueError, GroupNotEmpty, GroupNotFound, GroupSubscribed, InvalidRequest
from goqueue.groups.classic.client_metadata import CONSUMER_PROTOCOL_TYPE
from goqueue.groups.classic.protocol import ClassicProtocol
from goqueue.groups.commands import CommitOffsets, CommittedOffsets, DeleteOffsets, FetchOffsets, Outcomes
from goqueue.groups.consumer.protocol import ConsumerProtocol
from goqueue.groups.descriptions import GroupState
from goqueue.groups.group_entry import GroupEntry
from goqueue.groups.outbox import Outbox
from goqueue.groups.subscription.subscriptions import Subscriptions
from goqueue.groups.subscription.topic_partitions import TopicCatalog

# How often offsets are looked over for those that are too old. Kafka's number.
OFFSETS_CHECK_MS = 600_000

# A commit is one batch of the internal topic, and must fit into it.
COMMIT_OFFSETS_MAX = 20_000
COMMIT_CHARS_MAX = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Offsets:
    """Lets the group's protocol say who may, and its table do it."""

    config: GroupsConfig
    catalog: TopicCatalog
    subscriptions: Subscriptions
    classic: ClassicProtocol
    consumer: ConsumerProtocol

    def commit(
        self, entry: GroupEntry, command: CommitOffsets, now_ms: int, out: Outbox, *, checked: bool = False
    ) -> Outcomes:
        """Write offsets down for a member, or for anybody while the group is empty.

        With `checked` membership does not matter: something else says who may.
        """
        if not checked:
            self._check_commit(entry, command, now_ms)
        text_chars = sum(len(one.metadata) for one in command.offsets)
        if len(command.offsets) > COMMIT_OFFSETS_MAX or text_chars > COMMIT_CHARS_MAX:
            raise InvalidRequest(
                "the commit has more offsets, or more metadata, than one commit may have", field="offsets"
            )
        limit = self.config.offset_metadata_bytes_max
        return entry.offsets.commit(command.offsets, metadata_bytes_max=limit, now_ms=now_ms, out=out)

    def _check_commit(self, entry: GroupEntry, command: CommitOffsets, now_ms: int) -> None:
        if entry.consumer is not None:
            self.consumer.check_commit(entry.consumer, command)
        elif entry.classic is not None:
            self.classic.check_commit(entry.classic, command, now_ms)
        elif command.generation >= 0:
            raise GroupNotFound(command.group)

    def fetch(self, entry: GroupEntry, command: FetchOffsets) -> CommittedOffsets:
        """Read offsets back."""
        if entry.consumer is not None:
            self.consumer.check_fetch(entry.consumer, command)
        return entry.offsets.fetch(command.partitions, self.catalog)

    def delete(self, entry: GroupEntry, command: DeleteOffsets, out: Outbox) -> Outcomes:
        """Forget offsets, but not of a topic that is being read."""
        classic = entry.classic
        if classic is not None and classic.members and classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupNotEmpty(
                f"group {command.group!r} has active members of a protocol that does not say which topics they read"
            )
        is_read = entry.reads(self.subscriptions)
        outcomes: list[GoQueueError | None] = []
        for partition in command.partitions:
            if is_read(partition.topic):
                outcomes.append(GroupSubscribed(f"group {command.group!r} reads topic {partition.topic!r}"))
            else:
                entry.offsets.delete(partition, out)
                outcomes.append(None)
        return tuple(outcomes)

    def expire(self, table: Iterable[GroupEntry], now_ms: int, out: Outbox) -> None:
        """Forget offsets that are too old, and empty stream groups that have none left."""
        before_ms = now_ms - self.config.offsets_retention_ms
        for entry in table:
            is_empty = entry.state is GroupState.EMPTY
            # An empty group's offsets are kept for as long after the last member left.
            limit_ms = 0 if is_empty and entry.changed_ms >= before_ms else before_ms
            left = entry.offsets.expire(
                is_read=entry.reads(self.subscriptions), before_ms=limit_ms, catalog=self.catalog, out=out
            )
            is_expected = entry.classic is not None and entry.classic.pending
            # A queue group lives until it is deleted, and speaks the same protocol for as long.
            if is_empty and not left and not is_expected and entry.queue is None:
                entry.write_group_tombstones(out)
