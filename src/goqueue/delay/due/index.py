"""The due index: where each slot's newest record lies and when it is due, on the disk, by time and by partition.

One file holds the slots of many partitions. It is derived from their delay logs and may be thrown away at any time. It
lives in SQLite, which keeps memory flat however long the backlog. Changes of a partition are taken in together with
the offset up to which its log is contained and the leader epoch there, and only once the log is durable up to there:
so the index never knows more than the log, and after a crash the rest is replayed from that offset on. Rows carry sums,
which are checked when the file is opened. A file that is damaged or of another version is made anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import NamedTuple

from goqueue.delay.due.index_file import (
    PENDING,
    PUT,
    REACHED,
    REGISTER,
    connect,
    create,
    insert,
    is_passing,
    open_file,
    sealed,
    unsealed,
)
from goqueue.delay.holding.records import (
    Change,
    Fire,
    FireKey,
    Origin,
    Schedule,
    ScheduleKey,
    Slot,
    SlotKey,
    SlotState,
)
from goqueue.delay.holding.staged import StagedSlot

# Files by the hash of the partition: one that is damaged holds up an eighth of the partitions, for a while.
FILES = 8
# A key is the number of a partition and, below it, the slot.
_SLOT_BITS = 40
_SLOT_MASK = (1 << _SLOT_BITS) - 1
_ROW = "SELECT key, offset, due, state FROM slots"

Remove = Callable[[str], None]
# (what is the matter with the file, what showed it): it is made anew.
OnRebuild = Callable[[str, BaseException], None]


class Row(NamedTuple):
    """A slot in the index: `key` names partition and slot, `offset` is that of its newest record."""

    key: int
    offset: int
    due_ms: int
    state: int = PENDING

    @property
    def slot(self) -> int:
        """The slot within its partition."""
        return self.key & _SLOT_MASK

    @property
    def number(self) -> int:
        """The partition's number in the index."""
        return self.key >> _SLOT_BITS


def key_of(number: int, slot: int) -> int:
    """What a slot is called in the index."""
    return number << _SLOT_BITS | slot


# Of each producer, its last batches are told apart: as many as a client has on their way, and one more.
MARKS_MAX = 6


class OriginMark(NamedTuple):
    """The last sequence of one batch of a producer whose delayed records are held, and when that was decided."""

    epoch: int
    sequence: int
    seen_ms: int


class Known(NamedTuple):
    """How far the index follows one partition's delay log: up to `end_offset`, which was written in `epoch`."""

    number: int
    end_offset: int
    epoch: int


class PartitionFacts(NamedTuple):
    """What must be at hand of a partition."""

    pending: int
    expired: int
    fires: list[Fire]
    schedules: dict[str, Schedule]
    origins: dict[int, list[OriginMark]]
    staged: list[StagedSlot]
    # When its first pending slot is due; None: there is none.
    first_due_ms: int | None


class DueIndex:
    """One file. `path` None keeps it in memory, to be rebuilt at every start.

    Every call may block. The writing ones belong to one thread at a time; `find` has a
    connection of its own, so that it can be asked meanwhile.
    """

    def __init__(
        self,
        path: str | None,
        file: int,
        *,
        remove: Remove,
        on_rebuild: OnRebuild,
        damage: sqlite3.DatabaseError | None = None,
    ) -> None:
        """`damage` is what came to light while the file was read: it is not tried again."""
        self._path = path
        self._file = file
        self._writer = self._open(remove, on_rebuild, damage)
        # In memory there is only one connection, and only one thread that uses it.
        self._reader = self._writer if path is None else connect(path)

    # --- partitions ---------------------------------------------------------------------

    def register(self, topic_id: bytes, partition: int, number: int | None = None) -> Known:
        """A partition's number here, and how far it is contained. With `number` it had that one before a rebuild."""
        writer = self._writer
        found = writer.execute(
            "SELECT number, end_offset, epoch FROM partitions WHERE topic_id = ? AND partition = ?",
            (topic_id, partition),
        ).fetchone()
        if found is not None:
            return Known(*found)
        if number is None:
            (last,) = writer.execute("SELECT coalesce(max(number), 0) FROM partitions").fetchone()
            # Numbers are unique over all files, so that one table in memory can hold the slots of all.
            number = (last // FILES + 1) * FILES + self._file
        with writer:
            writer.execute(REGISTER, (number, topic_id, partition))
        return Known(number, 0, -1)

    def reset(self, number: int) -> None:
        """Forget what is known of a partition, to be replayed from the beginning of its log."""
        with self._writer:
            self._clear(number)
            self._writer.execute(REACHED, (0, -1, number))

    def forget(self, number: int) -> None:
        """The partition is gone for good."""
        with self._writer:
            self._clear(number)
            self._writer.execute("DELETE FROM partitions WHERE number = ?", (number,))

    def partitions(self) -> list[tuple[int, bytes, int]]:
        """Number, topic id and partition of all that it knows."""
        return self._writer.execute("SELECT number, topic_id, partition FROM partitions").fetchall()

    def facts(self, number: int) -> PartitionFacts:
        """What must be at hand of a partition."""
        ask, keys = self._writer.execute, _keys(number)
        pending, expired = ask(
            "SELECT coalesce(sum(state = ?), 0), coalesce(sum(state != ?), 0) FROM slots WHERE key BETWEEN ? AND ?",
            (PENDING, PENDING, *keys),
        ).fetchone()
        fires = ask("SELECT key, value FROM fires WHERE key BETWEEN ? AND ? ORDER BY key", keys).fetchall()
        schedules = ask("SELECT name, value FROM schedules WHERE number = ?", (number,)).fetchall()
        marks = ask(
            "SELECT producer_id, epoch, sequence, seen_ms FROM origins WHERE number = ? ORDER BY slot", (number,)
        )
        origins: dict[int, list[OriginMark]] = {}
        for producer_id, *mark in marks:
            origins.setdefault(producer_id, []).append(OriginMark(*mark))
        staged = ask(
            "SELECT key, offset, due, producer_id, epoch, sequence, coordinator_epoch FROM staged "
            "WHERE key BETWEEN ? AND ? ORDER BY key",
            keys,
        ).fetchall()
        first = ask(
            f"SELECT due FROM slots WHERE number = ? AND state = {PENDING} ORDER BY due LIMIT 1",  # noqa: S608
            (number,),
        ).fetchone()
        return PartitionFacts(
            pending,
            expired,
            [one for key, data in fires if isinstance(one := unsealed(str(key), data), Fire)],
            {name: one for name, data in schedules if isinstance(one := unsealed(name, data), Schedule)},
            origins,
            [StagedSlot(row[0] & _SLOT_MASK, *row[1:]) for row in staged],
            None if first is None else first[0],
        )

    # --- slots --------------------------------------------------------------------------

    def apply(self, changes: Iterable[tuple[int, Change]], known: Iterable[Known]) -> None:
        """Take changes in, each with its partition's number, in the order of their logs.

        The logs are contained as far as `known` says from then on.
        """
        with self._writer as writer:
            puts: dict[int, tuple[int, int, int, int, int]] = {}
            drops: list[tuple[int]] = []
            for number, change in changes:
                self._apply(number, change, puts, drops)
            # A slot that was settled is never put again, so the drops may all come last.
            if puts:
                writer.executemany(PUT, puts.values())
            if drops:
                writer.executemany("DELETE FROM slots WHERE key = ?", drops)
                if writer.execute("SELECT EXISTS (SELECT 1 FROM staged)").fetchone()[0]:
                    writer.executemany("DELETE FROM staged WHERE key = ?", drops)
            writer.executemany(REACHED, [(one.end_offset, one.epoch, one.number) for one in known])

    def find(self, key: int) -> Row | None:
        """One slot."""
        found = self._reader.execute(f"{_ROW} WHERE key = ?", (key,)).fetchone()
        return None if found is None else Row(*found)

    def due(self, after: tuple[int, int], until_ms: int, limit: int) -> list[Row]:
        """Pending slots behind (due, key) up to a time, earliest first."""
        rows = self._writer.execute(
            f"{_ROW} WHERE state = {PENDING} AND (due, key) > (?, ?) AND due <= ? ORDER BY due, key LIMIT ?",
            (*after, until_ms, limit),
        )
        return [Row(*row) for row in rows]

    def next_due_ms(self, after_ms: int) -> int | None:
        """When the first pending slot later than that is due."""
        found = self._writer.execute(
            f"SELECT due FROM slots WHERE state = {PENDING} AND due > ? ORDER BY due LIMIT 1",  # noqa: S608 - our own number
            (after_ms,),
        ).fetchone()
        return None if found is None else int(found[0])

    def of_partition(self, number: int, *, due_before_ms: int, limit: int) -> list[Row]:
        """A partition's slots by time, those that expired included."""
        rows = self._writer.execute(
            f"{_ROW} WHERE number = ? AND due < ? ORDER BY due, key LIMIT ?", (number, due_before_ms, limit)
        )
        return [Row(*row) for row in rows]

    def forget_origins(self, before_ms: int) -> None:
        """Drop producers that were silent since then."""
        with self._writer:
            self._writer.execute("DELETE FROM origins WHERE seen_ms < ?", (before_ms,))

    def close(self) -> None:
        """Let go of the file. A second close does no harm."""
        self._reader.close()
        self._writer.close()

    # --- the file -----------------------------------------------------------------------

    def _open(self, remove: Remove, on_rebuild: OnRebuild, damage: sqlite3.DatabaseError | None) -> sqlite3.Connection:
        path = self._path
        if path is None:
            return create(connect(":memory:"))
        try:
            if damage is not None:
                raise damage
            return open_file(path)
        except sqlite3.DatabaseError as problem:
            if is_passing(problem):
                raise
            on_rebuild(f"the index of delayed messages {path} is not ours or damaged: it is built anew", problem)
        for suffix in ("", "-wal", "-shm", "-journal"):
            remove(path + suffix)
        return create(connect(path))

    def _clear(self, number: int) -> None:
        writer, keys = self._writer, _keys(number)
        for table in ("slots", "fires", "staged"):
            writer.execute(f"DELETE FROM {table} WHERE key BETWEEN ? AND ?", keys)  # noqa: S608 - our own names
        for table in ("schedules", "origins"):
            writer.execute(f"DELETE FROM {table} WHERE number = ?", (number,))  # noqa: S608 - our own names

    # --- changes ------------------------------------------------------------------------

    def _apply(
        self, number: int, change: Change, puts: dict[int, tuple[int, int, int, int, int]], drops: list[tuple[int]]
    ) -> None:
        value = change.value
        match change.key:
            case SlotKey(slot):
                key = key_of(number, slot)
                if isinstance(value, Slot) and value.state == SlotState.STAGED:
                    self._stage(key, change.offset, value)
                elif isinstance(value, Slot):
                    puts[key] = (key, number, change.offset, value.due_ms, value.state)
                    if change.offset != slot:
                        self._writer.execute("DELETE FROM staged WHERE key = ?", (key,))
                    # A slot that was changed later says nothing new about where it came from.
                    elif value.origin is not None:
                        self._mark_origin(number, slot, value.origin, value.created_ms)
                else:
                    drops.append((key,))
            case FireKey(slot):
                key = key_of(number, slot)
                self._writer.execute("DELETE FROM fires WHERE key = ?", (key,))
                if value is not None:
                    self._writer.execute("INSERT INTO fires VALUES (?, ?)", (key, sealed(str(key), value)))
            case ScheduleKey(name):
                self._writer.execute("DELETE FROM schedules WHERE number = ? AND name = ?", (number, name))
                if value is not None:
                    row = (number, name, sealed(name, value))
                    self._writer.execute("INSERT INTO schedules VALUES (?, ?, ?)", row)
            case _:
                pass

    def _stage(self, key: int, offset: int, slot: Slot) -> None:
        origin = slot.origin
        if origin is not None:
            row = StagedSlot.of(key, offset, slot.due_ms, origin)
            self._writer.execute(f"INSERT OR REPLACE {insert('staged', len(row))}", row)

    def _mark_origin(self, number: int, slot: int, origin: Origin, seen_ms: int) -> None:
        row = (number, origin.producer_id, seen_ms, origin.producer_epoch, origin.last_sequence, slot)
        self._writer.execute(f"INSERT OR REPLACE {insert('origins', 6)}", row)
        of_producer = (number, origin.producer_id)
        self._writer.execute(
            "DELETE FROM origins WHERE number = ? AND producer_id = ? AND slot <= (SELECT slot FROM origins "
            "WHERE number = ? AND producer_id = ? ORDER BY slot DESC LIMIT 1 OFFSET ?)",
            (*of_producer, *of_producer, MARKS_MAX),
        )


def _keys(number: int) -> tuple[int, int]:
    return key_of(number, 0), key_of(number, _SLOT_MASK)
