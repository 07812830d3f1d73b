"""The due index: where each slot's newest record lies and when it is due, on the disk, by time and by partition.

One file holds the slots of many partitions. It is derived from their delay logs and may be thrown away at any time. It
lives in SQLite, which keeps memory flat however long the backlog. Changes of a partition are taken in together with
the offset up to which its log is contained and the leader epoch there, and only once the log is durable up to there:
so the index never knows more than the log, and after a crash the rest is replayed from that offset on. A file that is
damaged or of another version is made anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import NamedTuple

from goqueue.delay.holding.records import (
    VALUES,
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

_VERSION = 3
# Files by the hash of the partition: one that is damaged holds up an eighth of the partitions, for a while.
FILES = 8
# A key is the number of a partition and, below it, the slot.
_SLOT_BITS = 40
_SLOT_MASK = (1 << _SLOT_BITS) - 1
# Kilobytes of pages that one connection keeps in memory, whatever the size of the file.
_CACHE_KIB = 2048
_PASSING = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
    }
)
_PENDING = SlotState.PENDING.value

_TABLES = f"""
CREATE TABLE stamp (version INTEGER);
CREATE TABLE partitions (number INTEGER PRIMARY KEY, topic_id BLOB, partition INTEGER, end_offset INTEGER,
                         epoch INTEGER, UNIQUE (topic_id, partition));
CREATE TABLE slots (key INTEGER PRIMARY KEY, number INTEGER, offset INTEGER, due INTEGER, state INTEGER);
CREATE INDEX due_slots ON slots (due, key) WHERE state = {_PENDING};
CREATE INDEX partition_slots ON slots (number, due, key);
CREATE TABLE fires (key INTEGER PRIMARY KEY, value BLOB);
CREATE TABLE schedules (number INTEGER, name TEXT, value BLOB, PRIMARY KEY (number, name)) WITHOUT ROWID;
CREATE TABLE origins (number INTEGER, producer_id INTEGER, seen_ms INTEGER, epoch INTEGER, sequence INTEGER,
                      slot INTEGER, PRIMARY KEY (number, producer_id, seen_ms)) WITHOUT ROWID;
CREATE TABLE staged (key INTEGER PRIMARY KEY, offset INTEGER, due INTEGER, producer_id INTEGER, epoch INTEGER,
                     sequence INTEGER);
"""
_PUT = "INSERT INTO slots VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET offset = excluded.offset, due = excluded.due, state = excluded.state"  # noqa: E501
_ROW = "SELECT key, offset, due, state FROM slots"

Remove = Callable[[str], None]
# (what is the matter with the file, what showed it): it is made anew.
OnRebuild = Callable[[str, BaseException], None]


class Row(NamedTuple):
    """A slot in the index: `key` names partition and slot, `offset` is that of its newest record."""

    key: int
    offset: int
    due_ms: int
    state: int = _PENDING

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
        self._reader = self._writer if path is None else _connect(path)

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
            writer.execute("INSERT INTO partitions VALUES (?, ?, ?, 0, -1)", (number, topic_id, partition))
        return Known(number, 0, -1)

    def reset(self, number: int) -> None:
        """Forget what is known of a partition, to be replayed from the beginning of its log."""
        with self._writer:
            self._clear(number)
            self._writer.execute("UPDATE partitions SET end_offset = 0, epoch = -1 WHERE number = ?", (number,))

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
            (_PENDING, _PENDING, *keys),
        ).fetchone()
        fires = ask("SELECT value FROM fires WHERE key BETWEEN ? AND ? ORDER BY key", keys).fetchall()
        schedules = ask("SELECT name, value FROM schedules WHERE number = ?", (number,)).fetchall()
        marks = ask(
            "SELECT producer_id, epoch, sequence, seen_ms FROM origins WHERE number = ? ORDER BY slot", (number,)
        )
        origins: dict[int, list[OriginMark]] = {}
        for producer_id, *mark in marks:
            origins.setdefault(producer_id, []).append(OriginMark(*mark))
        staged = ask("SELECT * FROM staged WHERE key BETWEEN ? AND ? ORDER BY key", keys).fetchall()
        first = ask(
            f"SELECT due FROM slots WHERE number = ? AND state = {_PENDING} ORDER BY due LIMIT 1",  # noqa: S608
            (number,),
        ).fetchone()
        return PartitionFacts(
            pending,
            expired,
            [one for (data,) in fires if isinstance(one := VALUES.decode(data), Fire)],
            {name: one for name, data in schedules if isinstance(one := VALUES.decode(data), Schedule)},
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
                writer.executemany(_PUT, puts.values())
            if drops:
                writer.executemany("DELETE FROM slots WHERE key = ?", drops)
                if writer.execute("SELECT EXISTS (SELECT 1 FROM staged)").fetchone()[0]:
                    writer.executemany("DELETE FROM staged WHERE key = ?", drops)
            writer.executemany(
                "UPDATE partitions SET end_offset = ?, epoch = ? WHERE number = ?",
                [(one.end_offset, one.epoch, one.number) for one in known],
            )

    def find(self, key: int) -> Row | None:
        """One slot."""
        found = self._reader.execute(f"{_ROW} WHERE key = ?", (key,)).fetchone()
        return None if found is None else Row(*found)

    def due(self, after: tuple[int, int], until_ms: int, limit: int) -> list[Row]:
        """Pending slots behind (due, key) up to a time, earliest first."""
        rows = self._writer.execute(
            f"{_ROW} WHERE state = {_PENDING} AND (due, key) > (?, ?) AND due <= ? ORDER BY due, key LIMIT ?",
            (*after, until_ms, limit),
        )
        return [Row(*row) for row in rows]

    def next_due_ms(self, after_ms: int) -> int | None:
        """When the first pending slot later than that is due."""
        found = self._writer.execute(
            f"SELECT due FROM slots WHERE state = {_PENDING} AND due > ? ORDER BY due LIMIT 1",  # noqa: S608 - our own number
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
            return _create(_connect(":memory:"))
        try:
            if damage is not None:
                raise damage
            return _open_file(path)
        except sqlite3.DatabaseError as problem:
            if is_passing(problem):
                raise
            on_rebuild(f"the index of delayed messages {path} is not ours or damaged: it is built anew", problem)
        for suffix in ("", "-wal", "-shm", "-journal"):
            remove(path + suffix)
        return _create(_connect(path))

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
                    self._writer.execute("INSERT INTO fires VALUES (?, ?)", (key, VALUES.encode(value)))
            case ScheduleKey(name):
                self._writer.execute("DELETE FROM schedules WHERE number = ? AND name = ?", (number, name))
                if value is not None:
                    row = (number, name, VALUES.encode(value))
                    self._writer.execute("INSERT INTO schedules VALUES (?, ?, ?)", row)
            case _:
                pass

    def _stage(self, key: int, offset: int, slot: Slot) -> None:
        origin = slot.origin
        if origin is not None:
            row = (key, offset, slot.due_ms, origin.producer_id, origin.producer_epoch, origin.last_sequence)
            self._writer.execute("INSERT OR REPLACE INTO staged VALUES (?, ?, ?, ?, ?, ?)", row)

    def _mark_origin(self, number: int, slot: int, origin: Origin, seen_ms: int) -> None:
        row = (number, origin.producer_id, seen_ms, origin.producer_epoch, origin.last_sequence, slot)
        self._writer.execute("INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?, ?, ?)", row)
        of_producer = (number, origin.producer_id)
        self._writer.execute(
            "DELETE FROM origins WHERE number = ? AND producer_id = ? AND slot <= (SELECT slot FROM origins "
            "WHERE number = ? AND producer_id = ? ORDER BY slot DESC LIMIT 1 OFFSET ?)",
            (*of_producer, *of_producer, MARKS_MAX),
        )


def is_passing(problem: sqlite3.Error) -> bool:
    """Whether the disk is at fault, or the want of handles or memory, and not what the file holds."""
    # An error that we raise ourselves has no code; the low byte says what the rest details.
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _PASSING


def _keys(number: int) -> tuple[int, int]:
    return key_of(number, 0), key_of(number, _SLOT_MASK)


def _open_file(path: str) -> sqlite3.Connection:
    """The file's connection; raises if it is not an index of this version."""
    writer = _connect(path)
    try:
        if writer.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            return _create(writer)
        if writer.execute("SELECT version FROM stamp").fetchone() != (_VERSION,):
            raise sqlite3.DatabaseError("it is of another version")
    except BaseException:
        writer.close()
        raise
    return writer


def _create(writer: sqlite3.Connection) -> sqlite3.Connection:
    with writer:
        writer.executescript(_TABLES)
        writer.execute("INSERT INTO stamp VALUES (?)", (_VERSION,))
    return writer


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        # The log is what is durable; this only must not tear.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection
