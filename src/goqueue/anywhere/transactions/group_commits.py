"""Offsets that a transaction commits: sent by the transaction's coordinator to that of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod
from goqueue.caller import ANONYMOUS, Caller
from goqueue.coordinator.shard import Transaction
from goqueue.errors import GoQueueError
from goqueue.groups.commands import Outcomes
from goqueue.groups.offsets.commits import NewOffset
from goqueue.groups.service import CONSUMER_OFFSETS, GroupService

# A commit waits until what was read is safe on the in-sync replicas.
_COMMIT_MS = 30_000


class _Commit(msgspec.Struct, frozen=True, array_like=True):
    group: str
    offsets: list[NewOffset]
    transaction: Transaction
    member_id: str
    generation: int
    instance_id: str | None


_COMMIT: PeerMethod[_Commit, list[GoQueueError | None]] = PeerMethod(
    "group.commit_in_transaction", _Commit, list[GoQueueError | None]
)


class GroupsAnywhere:
    """`GroupService` whose commits in transactions reach groups that any node coordinates."""

    def __init__(self, local: GroupService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_COMMIT, self._here)

    def __getattr__(self, name: str) -> Any:
        """What is asked of the coordinator itself."""
        return getattr(self._local, name)

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
        """See `GroupService.commit_in_transaction`."""
        homes = self._asking.homes
        asked = _Commit(group, list(offsets), transaction, member_id, generation, instance_id)
        outcomes = await self._asking.at_home(
            lambda: homes.coordinator_of(CONSUMER_OFFSETS, group),
            lambda node: self._asking.ask_or_answer(node, _COMMIT, asked, caller, timeout_ms=_COMMIT_MS + ANSWER_MS),
            is_repeatable=True,
        )
        return tuple(outcomes)

    async def _here(self, asked: _Commit, caller: Caller) -> list[GoQueueError | None]:
        outcomes = await self._local.commit_in_transaction(
            asked.group,
            asked.offsets,
            asked.transaction,
            member_id=asked.member_id,
            generation=asked.generation,
            instance_id=asked.instance_id,
            caller=caller,
        )
        return list(outcomes)
