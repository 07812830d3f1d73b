"""Polls of groups that any node coordinates: what a member owns is asked of the coordinator, records of the leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.groups.polls import GroupPolls


class _Member(msgspec.Struct, frozen=True, array_like=True):
    group: str
    member_id: str
    generation: int


class _Owned(msgspec.Struct, frozen=True, array_like=True):
    places: list[TopicPartition]
    generation: int


_ASSIGNMENT: PeerMethod[_Member, _Owned] = PeerMethod("group.assignment", _Member, _Owned)


class PollsAnywhere:
    """`GroupPolls` on any node. `polls` reads by the word of the coordinator; `local` is asked by peers."""

    def __init__(self, local: GroupPolls, polls: GroupPolls, asking: Asking) -> None:
        self._local = local
        self._polls = polls
        self._asking = asking
        asking.answer(_ASSIGNMENT, self._here)

    def __getattr__(self, name: str) -> Any:
        """Where members stand is kept by the node that they poll."""
        return getattr(self._polls, name)

    async def assignment(self, group: str, member_id: str, generation: int) -> tuple[frozenset[TopicPartition], int]:
        """See `GroupPolls.assignment`."""
        homes, asked = self._asking.homes, _Member(group, member_id, generation)

        found = await self._asking.at_home(
            lambda: homes.coordinator_of(CONSUMER_OFFSETS, group),
            lambda node: self._asking.ask_or_answer(node, _ASSIGNMENT, asked, INTERNAL),
            is_repeatable=True,
        )
        return frozenset(found.places), found.generation

    async def _here(self, asked: _Member, _caller: Caller) -> _Owned:
        owned, generation = await self._local.assignment(asked.group, asked.member_id, asked.generation)
        return _Owned(sorted(owned), generation)
