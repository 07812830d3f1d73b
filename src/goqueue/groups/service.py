"""GroupService: what front-ends call. One method per thing that can be asked of a group.

Every method returns an awaitable of the reply, and awaiting it raises the errors of
`goqueue.errors`. A reply is given only once all that it says is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import cast

import msgspec

from goqueue.broker.topics import TopicService
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Rng
from goqueue.coordinator.runtime import Coordinator
from goqueue.coordinator.shard import Transaction
from goqueue.errors import (
    CoordinatorUnavailable,
    GoQueueError,
    GroupBeingDeleted,
    GroupModeMismatch,
)
from goqueue.groups.commands import (
    AskMode,
    CommitInTransaction,
    CommitOffsets,
    CommittedOffset,
    CommittedOffsets,
    ConsumerBeat,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    FinishDeletion,
    Heartbeat,
    IsQueue,
    Joined,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetToCommit,
    Outcomes,
    Synced,
    SyncGroup,
    UseQueue,
)
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription, ListedGroup
from goqueue.groups.offsets.commits import Commits, NewOffset
from goqueue.groups.queue.delivery_port import QueuePositions, Releases
from goqueue.groups.queue.settings import AsQueue, Mode, QueueSettings, Sharing
from goqueue.groups.records import PolicyValue
from goqueue.groups.settings.requests import SettingsRequests
from goqueue.groups.statistics import Rebalances, RebalanceStatistics
from goqueue.ids import is_internal_group, parse_group_id
from goqueue.metadata.events import GroupSettings
from goqueue.records import TopicPartition

__all__ = ["CONSUMER_OFFSETS", "GroupService", "NewOffset"]

CONSUMER_OFFSETS = "__consumer_offsets"
NO_CHANGES: Mapping[str, PolicyValue | None] = MappingProxyType({})

# Told of every commit and what became of each offset, after the fact; it must not raise.
OnCommit = Callable[[Caller, str, Sequence[NewOffset], Outcomes], None]


# (transaction, partition): asks the coordinator, if that is another node, so that the machine knows the answer.
VerifyTransaction = Callable[[Transaction, TopicPartition], Awaitable[None]]

# Why this node may not speak for what it leads: another may lead it by now. None if it may.
SessionProblem = Callable[[], str | None]


class GroupService:
    """Groups of both protocols, and their offsets."""

    def __init__(
        self,
        coordinator: Coordinator,
        topics: TopicService,
        rebalances: Rebalances,
        *,
        releases: Releases,
        positions: QueuePositions,
        commits: Commits,
        settings: SettingsRequests,
        rng: Rng,
        on_commit: Sequence[OnCommit] = (),
        verify_transaction: VerifyTransaction | None = None,
        session_problem: SessionProblem | None = None,
    ) -> None:
        self._verify = verify_transaction
        self._session_problem = session_problem
        self._coordinator = coordinator
        self._on_commit = tuple(on_commit)
        self._topics = topics
        self._releases = releases
        self._positions = positions
        self._commits = commits
        self._settings = settings
        self._rebalances = rebalances
        self._rng = rng
        # Queue groups as their coordinator knows them: asked for at every receive.
        self._queues: dict[str, QueueSettings] = {}

    # --- the classic protocol ---------------------------------------------------------

    def join(self, command: JoinGroup) -> Awaitable[Joined]:
        """Answered when the generation is formed. A `new_member_id` is made if there is none."""
        if not command.new_member_id:
            command = msgspec.structs.replace(command, new_member_id=self.new_member_id(command.client_id))
        return cast("Awaitable[Joined]", self._use(command.group, command))

    def sync(self, command: SyncGroup) -> Awaitable[Synced]:
        """Answered when the leader has assigned and that is durable."""
        return cast("Awaitable[Synced]", self._submit(command.group, command))

    def heartbeat(self, command: Heartbeat) -> Awaitable[None]:
        """Raises `RebalanceInProgress` when the member must join again."""
        return cast("Awaitable[None]", self._submit(command.group, command))

    def leave(self, command: LeaveGroup) -> Awaitable[Outcomes]:
        """Members of either protocol; one outcome each."""
        return cast("Awaitable[Outcomes]", self._submit(command.group, command))

    # --- the new protocol -------------------------------------------------------------

    def consumer_heartbeat(self, command: ConsumerHeartbeat) -> Awaitable[ConsumerBeat]:
        """Join, stay and leave (KIP-848). A member without an id is given one."""
        if not command.member_id and command.member_epoch == 0:
            command = msgspec.structs.replace(command, member_id=self.new_member_id(command.client_id))
        return cast("Awaitable[ConsumerBeat]", self._use(command.group, command))

    # --- offsets ----------------------------------------------------------------------

    async def commit(
        self,
        group: str,
        offsets: Sequence[NewOffset],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Outcomes:
        """Commit offsets; one outcome each. What names no partition that exists is refused by itself.

        A queue group that nobody is in begins again at these offsets; one that is in use refuses them.
        """
        return await self._commit(
            group, offsets, lambda valid: CommitOffsets(group, valid, member_id, generation, instance_id), caller
        )

    async def commit_in_transaction(
        self,
        group: str,
        offsets: Sequence[NewOffset],
        transaction: Transaction,
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Outcomes:
        """As `commit`, but they count once the transaction is committed, if it is."""
        place = self.place_of(group)
        shard = place.partition
        if self._verify is not None:
            await self._verify(transaction, place)

        def command(valid: tuple[OffsetToCommit, ...]) -> CommitInTransaction:
            commit = CommitOffsets(group, valid, member_id, generation, instance_id)
            return CommitInTransaction(commit, transaction, shard)

        return await self._commit(group, offsets, command, caller)

    async def _commit(
        self,
        group: str,
        offsets: Sequence[NewOffset],
        command: Callable[[tuple[OffsetToCommit, ...]], object],
        caller: Caller,
    ) -> Outcomes:
        resolved = [self._commits.resolved(one) for one in offsets]
        # Commits of a group are taken in the order in which they came, however long each waits.
        async with self._commits.turn(group):
            checked = await self._commits.lasting(resolved)
            valid = tuple(one for one in checked if isinstance(one, OffsetToCommit))
            asked = command(valid)
            reply = self._submit(group, asked) if valid else None
        outcomes = () if reply is None else cast("Outcomes | IsQueue", await self._answer(group, asked, reply))
        if outcomes is IsQueue.IT_IS:
            to = {TopicPartition(one.topic, one.partition): one.offset for one in valid}
            await self._positions.reset(group, to, (await self.queue_settings(group)).incarnation)
            outcomes = (None,) * len(valid)
        stored = iter(outcomes)
        results = tuple(next(stored) if isinstance(one, OffsetToCommit) else one for one in checked)
        for tell in self._on_commit:
            tell(caller, group, offsets, results)
        return results

    async def fetch_offsets(
        self,
        group: str,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
    ) -> CommittedOffsets:
        """Committed offsets of these partitions, or of all; those without one are left out.

        With `require_stable`, `UnstableOffset` while an open transaction may change one of them. A queue group's
        are the lowest that delivery has not settled.
        """
        wanted = None if partitions is None else tuple(partitions)
        command = FetchOffsets(group, wanted, member_id, member_epoch, require_stable)
        reply = cast("CommittedOffsets | IsQueue", await self._submit(group, command))
        if isinstance(reply, IsQueue):
            reply = self._unsettled(await self._positions.committed(group, wanted))
        problem = None if self._session_problem is None else self._session_problem()
        if problem is not None:
            # A node that was frozen knows nothing of its successor yet, nor of what was committed there. What is
            # written needs no such look: nobody confirms it.
            raise CoordinatorUnavailable(f"another node may have newer committed offsets: {problem}")
        return reply

    async def unsettled(self, group: str, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Of a queue group, how many messages of these partitions are not settled; nothing of a stream group."""
        return await self._positions.unsettled(group, places) if await self.mode(group) is Mode.QUEUE else {}

    async def forget_topic(self, group: str, topic: str) -> bool:
        """Let a queue group begin a topic anew, whoever leads its partitions; whether it ever read it."""
        return await self._positions.forget_topic(group, topic)

    def delete_offsets(self, group: str, partitions: Sequence[TopicPartition]) -> Awaitable[Outcomes]:
        """Forget offsets of topics that the group does not read; one outcome each."""
        return cast("Awaitable[Outcomes]", self._submit(group, DeleteOffsets(group, tuple(partitions))))

    def place_of(self, group: str) -> TopicPartition:
        """Where a group's offsets lie, for whoever makes them part of a transaction."""
        return TopicPartition(CONSUMER_OFFSETS, self._coordinator.partition_for(group))

    async def end_transaction(
        self, place: TopicPartition, transaction: Transaction, /, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """A transaction ends here: the offsets that waited for it count, or are forgotten."""
        await self._coordinator.end_transaction(
            place.partition, transaction, commit=commit, coordinator_epoch=coordinator_epoch
        )

    # --- administration ---------------------------------------------------------------

    async def list(self, *, internal: bool = False) -> tuple[ListedGroup, ...]:
        """All groups by name, with `internal` the broker's own too. Asking does not make the internal topic."""
        if self._topics.find(CONSUMER_OFFSETS) is None:
            return ()
        shards = await self._coordinator.submit_all(ListGroups())
        found = (one for shard in shards for one in shard if internal or not is_internal_group(one.group))
        return tuple(sorted(found, key=lambda one: one.group))

    async def describe(self, group: str) -> ClassicDescription | ConsumerDescription:
        """A group of either protocol, or `GroupNotFound`."""
        described = cast("ClassicDescription | ConsumerDescription", await self._submit(group, DescribeGroup(group)))
        if described.queue is None:
            return described
        return msgspec.structs.replace(described, queue=self._settings.over(group, described.queue))

    async def delete(self, group: str) -> None:
        """Forget an empty group with its offsets and settings; `GroupNotEmpty`, `GroupNotFound`."""
        if await self._submit(group, DeleteGroup(group)) is IsQueue.IT_IS:
            await self._finish_deletion(group)
        else:
            await self._settings.stored.forget(group)

    def settings(self, group: str) -> Awaitable[GroupSettings]:
        """What was set for a group, whether it is there or not."""
        return self._settings.of(parse_group_id(group), self._submit)

    def alter_settings(
        self,
        group: str,
        changes: Mapping[str, str | None],
        *,
        delivery: Mapping[str, PolicyValue | None] = NO_CHANGES,
        validate_only: bool = False,
    ) -> Awaitable[None]:
        """Change them, by the names of `own_settings`; None takes one back. A member's next heartbeat obeys them.

        `delivery` changes how the group delivers as a queue. A group that is not there yet is not made by it.
        """
        return self._settings.alter(parse_group_id(group), changes, delivery, self._submit, validate_only=validate_only)

    def rebalance_statistics(self, group: str | None = None) -> RebalanceStatistics:
        """Of one group, or of all together, since the node was started."""
        return self._rebalances.overall() if group is None else self._rebalances.of(group)

    def new_member_id(self, client_id: str) -> str:
        """The client's id and enough chance to be unique."""
        return f"{client_id or 'member'}-{self._rng.getrandbits(128):032x}"

    async def close(self) -> None:
        """Answer what is outstanding and stop. A second close does no harm."""
        await self._settings.former.close()
        await self._coordinator.close()
        await self._releases.close()

    # --- queue groups -----------------------------------------------------------------

    async def ensure_queue(
        self, group: str, *, sharing: Sharing | None = None, key_ordered: bool | None = None
    ) -> QueueSettings:
        """Use a group as a queue, making it one if it is new; `GroupModeMismatch` if it is something else."""
        known = self._queues.get(group)
        if known is not None and sharing in {None, known.sharing} and key_ordered in {None, known.key_ordered}:
            return self._settings.over(group, known)
        reply = await self._use(group, UseQueue(group, AsQueue(sharing, key_ordered)))
        return self._remember(group, cast("QueueSettings", reply))

    async def queue_settings(self, group: str) -> QueueSettings:
        """The settings of a queue group; `GroupNotFound`, `GroupModeMismatch`."""
        described = await self.describe(group)
        if described.queue is None:
            raise GroupModeMismatch(group, Mode.STREAM)
        return described.queue

    async def alter_queue(self, group: str, changes: Mapping[str, PolicyValue | None]) -> QueueSettings:
        """Override settings of delivery (None takes one back); `sharing` and `key_ordered` while it has no members."""
        return self._remember(group, await self._settings.alter_queue(group, changes, self._submit))

    async def mode(self, group: str) -> Mode | None:
        """How a group is read; None when there is no such group."""
        return cast("Mode | None", await self._submit(group, AskMode(group)))

    def _use(self, group: str, command: object) -> Awaitable[object]:
        """Submit what may be a group's first use."""
        return self._answer(group, command, self._submit(group, command))

    async def _answer(self, group: str, command: object, reply: Awaitable[object]) -> object:
        """The reply; a deletion that a crash left undone is done first, and the command submitted again."""
        try:
            return await reply
        except GroupBeingDeleted:
            await self._finish_deletion(group)
            return await self._submit(group, command)

    async def _finish_deletion(self, group: str) -> None:
        self._queues.pop(group, None)
        # What another node leads, or cannot be reached, it drops by itself: the next group has another incarnation.
        with suppress(GoQueueError):
            await self._positions.forget(group)
        await self._settings.stored.forget(group)
        await self._submit(group, FinishDeletion(group))

    def _remember(self, group: str, settings: QueueSettings) -> QueueSettings:
        known = self._queues.get(group)
        if known is None or known.incarnation != settings.incarnation or known.version <= settings.version:
            self._queues[group] = settings
        return self._settings.over(group, settings)

    def _unsettled(self, offsets: Mapping[TopicPartition, int]) -> CommittedOffsets:
        found = {at: (self._topics.find(at.topic), offset) for at, offset in offsets.items()}
        return {
            at: CommittedOffset(topic.topic_id, offset, -1, "", 0)
            for at, (topic, offset) in found.items()
            if topic is not None
        }

    def _submit(self, group: str, command: object) -> Awaitable[object]:
        return self._coordinator.submit(parse_group_id(group), command)
