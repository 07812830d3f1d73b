"""Groups of a broker: members, offsets and lag."""

from __future__ import annotations

from typing import Unpack

from goqueue.client.admin.replies import Group, GroupOffsets, GroupSummary, Reset
from goqueue.client.admin.requests import ResetFields
from goqueue.client.calls import Calls
from goqueue.client.transport import quoted


class GroupAdmin(Calls):
    """The part of a client that administers groups."""

    async def groups(self, *, internal: bool = False) -> list[GroupSummary]:
        """Every group with its state; with `internal`, the broker's own too.

        for group in await client.groups():
            print(group.id, group.state)
        """
        reply = await self._call("GET", "/groups", params={"internal": str(internal).lower()})
        return [GroupSummary(one) for one in reply["groups"]]

    async def group(self, group: str) -> Group:
        """One group: members, assignments, offsets, lag.

        for member in (await client.group("billing")).members:
            print(member.client_id, member.host, member.assigned_partitions)
        """
        return Group(await self._call("GET", f"/groups/{quoted(group)}"))

    async def group_offsets(self, group: str) -> GroupOffsets:
        """Committed offsets and lag by topic and partition.

        print((await client.group_offsets("billing")).total_lag)
        """
        return GroupOffsets(await self._call("GET", f"/groups/{quoted(group)}/offsets"))

    async def reset_offsets(self, group: str, **request: Unpack[ResetFields]) -> Reset:
        """Move an inactive group's offsets.

        await client.reset_offsets("billing", topic="orders", to="earliest", dry_run=True)
        """
        return Reset(await self._call("POST", f"/groups/{quoted(group)}/offsets/reset", dict(request)))

    async def evict(self, group: str, member_id: str) -> None:
        """Evict a member from its group at once; its partitions and messages go to the others.

        group = await client.group("billing")
        await client.evict("billing", group.members[0].id)
        """
        await self._call("DELETE", f"/groups/{quoted(group)}/members/{quoted(member_id)}")

    async def delete_group(self, group: str) -> None:
        """Delete a group that has no members, and its offsets.

        await client.delete_group("billing")
        """
        await self._call("DELETE", f"/groups/{quoted(group)}")
