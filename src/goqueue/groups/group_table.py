"""The groups of one shard, by group id."""

from __future__ import annotations

from goqueue.errors import GroupNotFound, UnknownMember
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.group_entry import GroupEntry


class GroupTable(dict[str, GroupEntry]):
    """Looks groups up, and forgets those of which nothing is left."""

    def of(self, group_id: str) -> GroupEntry:
        """The entry of that id; a new one is dropped again by `tidy` if nothing came of it."""
        entry = self.get(group_id)
        if entry is None:
            entry = self[group_id] = GroupEntry(group_id)
        return entry

    def existing(self, group_id: str) -> GroupEntry:
        """The entry of a group that is there."""
        entry = self.get(group_id)
        if entry is None or entry.is_bare or entry.is_deleting:
            raise GroupNotFound(group_id)
        return entry

    def classic(self, group_id: str) -> ClassicGroup:
        """The classic group of that id, of which the caller says to be a member."""
        entry = self.get(group_id)
        if entry is None or entry.classic is None:
            raise UnknownMember(f"group {group_id!r} has no members of the classic protocol")
        return entry.classic

    def tidy(self, group_id: str) -> None:
        """Drop what nothing is left of."""
        entry = self.get(group_id)
        if entry is not None:
            entry.tidy()
            if entry.is_blank:
                del self[group_id]
