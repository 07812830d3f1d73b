"""Unindexed: the changes that are in the delay logs and not yet in the index, and who waits for the index to have them.

Until the index has a change, the row that the change makes of its slot is found here. Touches no disk and starts no
task: `indexing.py` takes the changes out, and puts back those that the index could not take in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.delay.due.index import Row, key_of
from goqueue.delay.holding.records import Change, SlotKey, without_message
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.delay.holding.store import Store


class UnindexedChange(NamedTuple):
    """A change that the index lacks, and which one it is by the order of writing."""

    turn: int
    store: Store
    change: Change


class NewestRow(NamedTuple):
    """The offset of the newest record of a slot, and the row that it makes; None if the slot is no row any more."""

    offset: int
    row: Row | None


class Unindexed:
    """What one index file lacks. Its length is the number of changes that wait to be taken out."""

    def __init__(self) -> None:
        self._changes: list[UnindexedChange] = []
        # By key.
        self._rows: dict[int, NewestRow] = {}
        self._added = 0
        # Changes were taken out and may be waiting for the disk: the index lacks them still.
        self._is_being_indexed = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def has_work(self) -> bool:
        """Whether changes wait to be taken out, or somebody waits for an answer."""
        return bool(self._changes or self._waiters)

    @property
    def is_empty(self) -> bool:
        """Whether the index has everything that is written."""
        return not (self._changes or self._is_being_indexed)

    def newest(self, key: int) -> NewestRow | None:
        """A slot as it is now, if the index does not have it so."""
        return self._rows.get(key)

    def keys(self) -> Collection[int]:
        """The slots that the index does not have as they are now."""
        return self._rows.keys()

    def add(self, store: Store, change: Change, row: Row | None) -> None:
        """A change was written; `row` is what it makes of its slot."""
        if isinstance(change.key, SlotKey):
            self._rows[key_of(store.number, change.key.slot)] = NewestRow(change.offset, row)
        self._added += 1
        self._changes.append(UnindexedChange(self._added, store, without_message(change)))

    def drop(self, store: Store) -> None:
        """Forget the changes of a partition that left: its next term finds them in the log."""
        self._changes = [one for one in self._changes if one.store is not store]
        for key in [key for key in self._rows if Row(key, 0, 0).number == store.number]:
            del self._rows[key]

    def take_out(self) -> list[UnindexedChange]:
        """All changes, to be taken in by the index; `put_back` must follow."""
        changes, self._changes = self._changes, []
        self._is_being_indexed = True
        return changes

    def put_back(self, changes: Sequence[UnindexedChange]) -> None:
        """The index could not take in these of the changes that were taken out, and has the others."""
        self._is_being_indexed = False
        self._changes = [*changes, *self._changes]

    def remove(self, one: UnindexedChange) -> tuple[int, Row | None] | None:
        """The index has a change: the key and the newest row of its slot, if no later change of the slot is left."""
        if not isinstance(one.change.key, SlotKey):
            return None
        key = key_of(one.store.number, one.change.key.slot)
        newest = self._rows.get(key)
        if newest is None or newest.offset > one.change.offset:
            return None
        del self._rows[key]
        return key, newest.row

    def mark_held_up(self) -> None:
        """Tell the partitions whose changes are here that the index lacked them for a while."""
        for one in self._changes:
            one.store.was_held_up = True

    def wait(self) -> asyncio.Future[None]:
        """Done once the index has everything that is written now."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._added, done))
        return done

    def answer(self, failure: GoQueueError | None, *, skip_held_up: bool = False) -> None:
        """Answer those who wait, all with the failure if there is one; without the changes of logs held up if told."""
        waiters, self._waiters = self._waiters, []
        missing = (one.turn for one in self._changes if not (skip_held_up and one.store.was_held_up))
        first = min(missing, default=None)
        for wanted, done in waiters:
            if done.done():
                continue
            if failure is not None:
                done.set_exception(failure)
            elif first is None or wanted < first:
                done.set_result(None)
            else:
                self._waiters.append((wanted, done))
