"""The slots of one shard, by group id."""

from __future__ import annotations

from goqueue.errors import GroupNotFound, UnknownMember
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.slot import Slot


class Slots(dict[str, Slot]):
    """Looks groups up, and forgets those of which nothing is left."""

    def of(self, group_id: str) -> Slot:
        """The slot of that id; a new one is dropped again by `tidy` if nothing came of it."""
        slot = self.get(group_id)
        if slot is None:
            slot = self[group_id] = Slot(group_id)
        return slot

    def existing(self, group_id: str) -> Slot:
        """The slot of a group that is there."""
        slot = self.get(group_id)
        if slot is None or slot.is_bare or slot.is_deleting:
            raise GroupNotFound(group_id)
        return slot

    def classic(self, group_id: str) -> ClassicGroup:
        """The classic group of that id, of which the caller says to be a member."""
        slot = self.get(group_id)
        if slot is None or slot.classic is None:
            raise UnknownMember(f"there is no classic group {group_id!r}")
        return slot.classic

    def tidy(self, group_id: str) -> None:
        """Drop what nothing is left of."""
        slot = self.get(group_id)
        if slot is not None:
            slot.tidy()
            if slot.is_blank:
                del self[group_id]
