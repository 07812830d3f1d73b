"""Groups whose coordinator is another node, for those who read in their name: joining, heartbeats, who owns what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod, Question, Reply
from goqueue.caller import INTERNAL, Caller
from goqueue.groups.commands import CommittedOffset, ConsumerBeat, ConsumerHeartbeat, Heartbeat
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription
from goqueue.groups.queue.settings import Mode, QueueSettings, Sharing
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.groups.service import GroupService


class _Described(msgspec.Struct, frozen=True, array_like=True):
    """One of the two."""

    classic: ClassicDescription | None
    consumer: ConsumerDescription | None


class _Fetch(msgspec.Struct, frozen=True, array_like=True):
    group: str
    places: list[TopicPartition] | None


class _Use(msgspec.Struct, frozen=True, array_like=True):
    group: str
    sharing: Sharing | None
    key_ordered: bool | None


_JOIN: PeerMethod[ConsumerHeartbeat, ConsumerBeat] = PeerMethod(
    "group.consumer_heartbeat", ConsumerHeartbeat, ConsumerBeat
)
_BEAT: PeerMethod[Heartbeat, None] = PeerMethod("group.heartbeat", Heartbeat, None)
_DESCRIBE: PeerMethod[str, _Described] = PeerMethod("group.describe", str, _Described)
_MODE: PeerMethod[str, Mode | None] = PeerMethod("group.mode", str, Mode | None)
_USE: PeerMethod[_Use, QueueSettings] = PeerMethod("group.use_queue", _Use, QueueSettings)
_FETCH: PeerMethod[_Fetch, list[tuple[TopicPartition, CommittedOffset]]] = PeerMethod(
    "group.offsets", _Fetch, list[tuple[TopicPartition, CommittedOffset]]
)


class MembersAnywhere:
    """`GroupService` as members need it, whichever node coordinates their group."""

    def __init__(self, local: GroupService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_JOIN, self._join_here)
        asking.answer(_BEAT, self._beat_here)
        asking.answer(_DESCRIBE, self._describe_here)
        asking.answer(_MODE, self._mode_here)
        asking.answer(_FETCH, self._fetch_here)
        asking.answer(_USE, self._use_here)

    def __getattr__(self, name: str) -> Any:
        """What is asked of the coordinator itself."""
        return getattr(self._local, name)

    async def consumer_heartbeat(self, command: ConsumerHeartbeat) -> ConsumerBeat:
        """See `GroupService.consumer_heartbeat`."""
        return await self._at(command.group, _JOIN, command)

    async def heartbeat(self, command: Heartbeat) -> None:
        """See `GroupService.heartbeat`."""
        await self._at(command.group, _BEAT, command)

    async def describe(self, group: str) -> ClassicDescription | ConsumerDescription:
        """See `GroupService.describe`."""
        found = await self._at(group, _DESCRIBE, group)
        described = found.classic or found.consumer
        assert described is not None  # noqa: S101 - a group is one or the other
        return described

    async def mode(self, group: str) -> Mode | None:
        """See `GroupService.mode`."""
        return await self._at(group, _MODE, group)

    async def ensure_queue(
        self, group: str, *, sharing: Sharing | None = None, key_ordered: bool | None = None
    ) -> QueueSettings:
        """See `GroupService.ensure_queue`."""
        return await self._at(group, _USE, _Use(group, sharing, key_ordered))

    async def fetch_offsets(
        self, group: str, partitions: Sequence[TopicPartition] | None = None, **options: Any
    ) -> dict[TopicPartition, CommittedOffset]:
        """See `GroupService.fetch_offsets`. What more is asked than the offsets is asked of the coordinator itself."""
        if options:
            return dict(await self._local.fetch_offsets(group, partitions, **options))
        asked = _Fetch(group, None if partitions is None else list(partitions))
        found = await self._at(group, _FETCH, asked)
        return dict(found)

    async def _at(
        self,
        group: str,
        method: PeerMethod[Question, Reply],
        question: Question,
    ) -> Reply:
        homes = self._asking.homes
        return await self._asking.at_home(
            lambda: homes.coordinator_of(CONSUMER_OFFSETS, group),
            lambda node: self._asking.ask_or_answer(node, method, question, INTERNAL),
            is_repeatable=True,
        )

    # --- the node that is asked ------------------------------------------------------------

    async def _join_here(self, command: ConsumerHeartbeat, _caller: Caller) -> ConsumerBeat:
        return await self._local.consumer_heartbeat(command)

    async def _beat_here(self, command: Heartbeat, _caller: Caller) -> None:
        await self._local.heartbeat(command)

    async def _describe_here(self, group: str, _caller: Caller) -> _Described:
        found = await self._local.describe(group)
        if found.queue is not None:
            # A view of a dictionary does not travel; the dictionary does.
            queue = msgspec.structs.replace(found.queue, policy=dict(found.queue.policy))
            found = msgspec.structs.replace(found, queue=queue)
        if isinstance(found, ClassicDescription):
            return _Described(found, None)
        return _Described(None, found)

    async def _mode_here(self, group: str, _caller: Caller) -> Mode | None:
        return await self._local.mode(group)

    async def _use_here(self, asked: _Use, _caller: Caller) -> QueueSettings:
        found = await self._local.ensure_queue(asked.group, sharing=asked.sharing, key_ordered=asked.key_ordered)
        # A view of a dictionary does not travel; the dictionary does.
        return msgspec.structs.replace(found, policy=dict(found.policy))

    async def _fetch_here(self, asked: _Fetch, _caller: Caller) -> list[tuple[TopicPartition, CommittedOffset]]:
        return list((await self._local.fetch_offsets(asked.group, asked.places)).items())
