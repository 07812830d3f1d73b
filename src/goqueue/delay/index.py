"""The due index: where each slot's newest record lies and when it is due, on the disk, by time and by topic.

It is derived from `__delayed` and may be thrown away at any time. It lives in SQLite, which
keeps memory flat however long the backlog. Every change is taken in together with the offset up
to which the log is contained, and only once the log is durable up to there: so the index never
knows more than the log, and after a crash the rest is replayed from that offset on. A file
that is damaged, or that belongs to another log, is made anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from goqueue.delay.records import VALUES, Change, Fire, FireKey, Origin, Schedule, ScheduleKey, Slot, SlotKey, SlotState
from goqueue.delay.staged import StagedSlot

_VERSION = 2
# Kilobytes of pages that one connection keeps in memory, whatever the size of the file.
_CACHE_KIB = 8192
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
CREATE TABLE stamp (version INTEGER, topic_id BLOB, end_offset INTEGER);
CREATE TABLE topics (number INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE slots (slot INTEGER PRIMARY KEY, place INTEGER, due INTEGER, topic INTEGER, state INTEGER);
CREATE INDEX due_slots ON slots (due, slot) WHERE state = {_PENDING};
CREATE INDEX topic_slots ON slots (topic, due, slot);
CREATE TABLE fires (slot INTEGER PRIMARY KEY, value BLOB);
CREATE TABLE schedules (name TEXT PRIMARY KEY, value BLOB);
CREATE TABLE origins (topic_id BLOB, partition INTEGER, producer_id INTEGER, epoch INTEGER, sequence INTEGER,
                      seen_ms INTEGER, PRIMARY KEY (topic_id, partition, producer_id)) WITHOUT ROWID;
CREATE TABLE staged (slot INTEGER PRIMARY KEY, place INTEGER, due INTEGER, topic TEXT, topic_id BLOB,
                     partition INTEGER, producer_id INTEGER, epoch INTEGER, sequence INTEGER);
"""
_PUT = "INSERT INTO slots VALUES (?, ?, ?, ?, ?) ON CONFLICT (slot) DO UPDATE SET place = excluded.place, due = excluded.due, topic = excluded.topic, state = excluded.state"  # noqa: E501
_LIST = "SELECT slot, place, due, name, state FROM slots JOIN topics ON topic = number"

Remove = Callable[[str], None]
# (what is the matter with the file, what showed it): it is made anew.
OnRebuild = Callable[[str, BaseException], None]


class Row(NamedTuple):
    """A slot in the index: `place` is the offset of its newest record."""

    slot: int
    place: int
    due_ms: int
    topic: str
    state: int = _PENDING


class OriginKey(NamedTuple):
    """A producer in one partition of one topic."""

    topic_id: bytes
    partition: int
    producer_id: int


class OriginMark(NamedTuple):
    """The last sequence of that producer whose delayed records are scheduled."""

    epoch: int
    sequence: int
    seen_ms: int


class DueIndex:
    """One shard's index. `path` None keeps it in memory, to be rebuilt at every start.

    Every call may block. The writing ones belong to one thread at a time; `find` has a
    connection of its own, so that it can be asked meanwhile.
    """

    def __init__(
        self,
        path: str | None,
        topic_id: UUID,
        *,
        end_offset_max: int,
        remove: Remove,
        on_rebuild: OnRebuild,
        damage: sqlite3.DatabaseError | None = None,
    ) -> None:
        """`end_offset_max` is where the log ends: an index that knows more is of another life of the log.

        `damage` is what came to light while the file was read: it is not tried again.
        """
        self._path = path
        self._end_offset_max = end_offset_max
        self._topic_id = topic_id
        self._writer, self.end_offset = self._open(remove, on_rebuild, damage)
        self._topics: dict[str, int] = {name: number for number, name in self._writer.execute("SELECT * FROM topics")}
        # In memory there is only one connection, and only one thread that uses it.
        self._reader = self._writer if path is None else _connect(path)

    def apply(self, changes: Iterable[Change], end_offset: int) -> None:
        """Take changes in, in the order of the log, which is contained up to `end_offset` from then on."""
        writer = self._writer
        known = len(self._topics)
        try:
            with writer:
                puts: list[tuple[int, int, int, int, int]] = []
                drops: list[tuple[int]] = []
                for change in changes:
                    self._apply(change, puts, drops)
                # A slot that was settled is never put again, so the drops may all come last.
                self._write(puts, drops)
                writer.execute("UPDATE stamp SET end_offset = ?", (end_offset,))
        except BaseException:
            # Rolled back, the topics that these changes were the first to name included.
            for name in list(self._topics)[known:]:
                del self._topics[name]
            raise
        self.end_offset = end_offset

    def find(self, slot: int) -> Row | None:
        """One slot."""
        found = self._reader.execute(f"{_LIST} WHERE slot = ?", (slot,)).fetchone()
        return None if found is None else Row(*found)

    def due(self, after: tuple[int, int], until_ms: int, limit: int) -> list[Row]:
        """Pending slots behind (due, slot) up to a time, earliest first."""
        rows = self._writer.execute(
            f"{_LIST} WHERE state = {_PENDING} AND (due, slot) > (?, ?) AND due <= ? ORDER BY due, slot LIMIT ?",
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

    def of_topic(self, topic: str, *, due_before_ms: int, limit: int, skip: int) -> list[Row]:
        """A topic's slots by time, those that expired included."""
        rows = self._writer.execute(
            f"{_LIST} WHERE topic = ? AND due < ? ORDER BY due, slot LIMIT ? OFFSET ?",
            (self._topics.get(topic, -1), due_before_ms, limit, skip),
        )
        return [Row(*row) for row in rows]

    def counts(self) -> dict[str, tuple[int, int]]:
        """Per topic, how many slots are pending and how many expired."""
        rows = self._writer.execute(
            "SELECT name, sum(state = ?), sum(state != ?) FROM slots JOIN topics ON topic = number GROUP BY topic",
            (_PENDING, _PENDING),
        )
        return {name: (pending, expired) for name, pending, expired in rows}

    def fires(self) -> list[Fire]:
        """What was on its way, in the order of its slots."""
        return list(self._values("SELECT value FROM fires ORDER BY rowid", Fire))

    def schedules(self) -> dict[str, Schedule]:
        """The recurring messages."""
        rows = self._writer.execute("SELECT name, value FROM schedules").fetchall()
        return {name: msg for name, value in rows if isinstance(msg := VALUES.decode(value), Schedule)}

    def origins(self) -> dict[OriginKey, OriginMark]:
        """How far each producer's delayed records are scheduled."""
        rows = self._writer.execute("SELECT * FROM origins").fetchall()
        return {OriginKey(*row[:3]): OriginMark(*row[3:]) for row in rows}

    def staged(self) -> list[StagedSlot]:
        """Slots of open transactions, in the order in which they were staged."""
        rows: list[Any] = self._writer.execute("SELECT * FROM staged ORDER BY slot").fetchall()
        return [StagedSlot(row[0], row[1], row[2], row[3], row[4], Origin(*row[5:])) for row in rows]

    def forget_origins(self, before_ms: int) -> None:
        """Drop producers that were silent since then."""
        with self._writer:
            self._writer.execute("DELETE FROM origins WHERE seen_ms < ?", (before_ms,))

    def close(self) -> None:
        """Let go of the file. A second close does no harm."""
        self._reader.close()
        self._writer.close()

    def _open(
        self, remove: Remove, on_rebuild: OnRebuild, damage: sqlite3.DatabaseError | None
    ) -> tuple[sqlite3.Connection, int]:
        path = self._path
        if path is None:
            return self._create(_connect(":memory:"))
        try:
            if damage is not None:
                raise damage
            return self._open_file(path)
        except sqlite3.DatabaseError as problem:
            if is_passing(problem):
                raise
            on_rebuild(f"the index of delayed messages {path} is not ours or damaged: it is built anew", problem)
        for suffix in ("", "-wal", "-shm", "-journal"):
            remove(path + suffix)
        return self._create(_connect(path))

    def _open_file(self, path: str) -> tuple[sqlite3.Connection, int]:
        """The file's connection and how far it has come; raises if it is not an index of this log."""
        writer = _connect(path)
        try:
            if writer.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                return self._create(writer)
            stamp = writer.execute("SELECT version, topic_id, end_offset FROM stamp").fetchone()
            if stamp is None or stamp[:2] != (_VERSION, self._topic_id.bytes):
                raise sqlite3.DatabaseError("it belongs to another log or another version")
            if stamp[2] > self._end_offset_max:
                raise sqlite3.DatabaseError(f"it knows offset {stamp[2]}, the log ends at {self._end_offset_max}")
        except BaseException:
            writer.close()
            raise
        return writer, stamp[2]

    def _create(self, writer: sqlite3.Connection) -> tuple[sqlite3.Connection, int]:
        with writer:
            writer.executescript(_TABLES)
            writer.execute("INSERT INTO stamp VALUES (?, ?, 0)", (_VERSION, self._topic_id.bytes))
        return writer, 0

    def _apply(self, change: Change, puts: list[tuple[int, int, int, int, int]], drops: list[tuple[int]]) -> None:
        key, value = change.key, change.value
        if isinstance(key, SlotKey):
            if isinstance(value, Slot) and value.state == SlotState.STAGED:
                self._stage(change.offset, key.slot, value)
            elif isinstance(value, Slot):
                puts.append((key.slot, change.offset, value.due_ms, self._topic(value.topic), value.state))
                if change.offset != key.slot:
                    self._writer.execute("DELETE FROM staged WHERE slot = ?", (key.slot,))
                # A slot that was changed later says nothing new about where it came from.
                if value.origin is not None and change.offset == key.slot:
                    self._mark_origin(value)
            else:
                drops.append((key.slot,))
        elif isinstance(key, FireKey):
            self._put_or_drop("fires", "slot", key.slot, value)
        elif isinstance(key, ScheduleKey):
            self._put_or_drop("schedules", "name", key.name, value)

    def _write(self, puts: list[tuple[int, int, int, int, int]], drops: list[tuple[int]]) -> None:
        if puts:
            self._writer.executemany(_PUT, puts)
            puts.clear()
        if drops:
            self._writer.executemany("DELETE FROM slots WHERE slot = ?", drops)
            if self._writer.execute("SELECT EXISTS (SELECT 1 FROM staged)").fetchone()[0]:
                self._writer.executemany("DELETE FROM staged WHERE slot = ?", drops)
            drops.clear()

    def _put_or_drop(self, table: str, column: str, key: int | str, value: object) -> None:
        if value is None:
            self._writer.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))  # noqa: S608 - our own names
        else:
            data = VALUES.encode(value)  # type: ignore[arg-type]
            self._writer.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (key, data))  # noqa: S608

    def _stage(self, offset: int, number: int, slot: Slot) -> None:
        origin = slot.origin
        if origin is not None:
            self._writer.execute(
                "INSERT OR REPLACE INTO staged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number, offset, slot.due_ms, slot.topic, slot.topic_id, *msgspec.structs.astuple(origin)),
            )

    def _mark_origin(self, slot: Slot) -> None:
        origin = slot.origin
        if origin is not None:
            self._writer.execute(
                "INSERT OR REPLACE INTO origins VALUES (?, ?, ?, ?, ?, ?)",
                (
                    slot.topic_id,
                    origin.partition,
                    origin.producer_id,
                    origin.producer_epoch,
                    origin.last_sequence,
                    slot.created_ms,
                ),
            )

    def _topic(self, name: str) -> int:
        number = self._topics.get(name)
        if number is None:
            number = self._topics[name] = len(self._topics) + 1
            self._writer.execute("INSERT INTO topics VALUES (?, ?)", (number, name))
        return number

    def _values(self, query: str, kind: type[Fire]) -> Iterator[Fire]:
        rows: Sequence[tuple[bytes]] = self._writer.execute(query).fetchall()
        for (data,) in rows:
            value = VALUES.decode(data)
            if isinstance(value, kind):
                yield value


def is_passing(problem: sqlite3.Error) -> bool:
    """Whether the disk is at fault, or the want of handles or memory, and not what the file holds."""
    # An error that we raise ourselves has no code; the low byte says what the rest details.
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _PASSING


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
