"""The file of a due index: its tables, and how it is opened so that nothing in it is believed that a disk changed.

SQLite has no checksums of its own. Rows carry sums of their values, which SQLite checks, and stored values a CRC.
"""

from __future__ import annotations

import sqlite3
import zlib

from goqueue.delay.holding.records import VALUES, SlotState, Stored

_VERSION = 5
_CRC_BYTES = 4
# Kilobytes of pages that one connection keeps in memory, whatever the size of the file.
_CACHE_KIB = 2048
PENDING = SlotState.PENDING.value
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


def sum_of(*values: str) -> str:
    """What SQLite computes over the values of a row, so that one that a failing disk changed is noticed."""
    return " + ".join(f"{one} % 1000003 * {31 + at}" for at, one in enumerate(values))


def _checked(*columns: str) -> str:
    return f"sum INTEGER NOT NULL CHECK (sum IS {sum_of(*columns)})"


_TABLES = f"""
CREATE TABLE stamp (version INTEGER);
CREATE TABLE partitions (number INTEGER PRIMARY KEY, topic_id BLOB, partition INTEGER, end_offset INTEGER,
                         epoch INTEGER, {_checked("number", "partition", "end_offset", "epoch")},
                         UNIQUE (topic_id, partition));
CREATE TABLE slots (key INTEGER PRIMARY KEY, number INTEGER, offset INTEGER, due INTEGER, state INTEGER,
                    {_checked("key", "number", "offset", "due", "state")});
CREATE INDEX due_slots ON slots (due, key) WHERE state = {PENDING};
CREATE INDEX partition_slots ON slots (number, due, key);
CREATE TABLE fires (key INTEGER PRIMARY KEY, value BLOB);
CREATE TABLE schedules (number INTEGER, name TEXT, value BLOB, PRIMARY KEY (number, name)) WITHOUT ROWID;
CREATE TABLE origins (number INTEGER, producer_id INTEGER, seen_ms INTEGER, epoch INTEGER, sequence INTEGER,
                      slot INTEGER, {_checked("number", "producer_id", "seen_ms", "epoch", "sequence", "slot")},
                      PRIMARY KEY (number, producer_id, seen_ms)) WITHOUT ROWID;
CREATE TABLE staged (key INTEGER PRIMARY KEY, offset INTEGER, due INTEGER, producer_id INTEGER, epoch INTEGER,
                     sequence INTEGER, coordinator_epoch INTEGER,
                     {_checked("key", "offset", "due", "producer_id", "epoch", "sequence", "coordinator_epoch")});
"""
# What an index of the slots has is compared with what the table has: one sum is as good as looking up every row.
_SUMS = "SELECT count(*), sum(due % 1000003), sum(key % 1000003), sum(number % 1000003) FROM slots"
_SUMS_OF_INDEXES = (
    (_SUMS.replace(", sum(number % 1000003)", ""), "due_slots", f"WHERE state = {PENDING}"),
    (_SUMS, "partition_slots", ""),
)


def insert(table: str, count: int) -> str:
    """An insert of so many values and their sum."""
    values = [f"?{one + 1}" for one in range(count)]
    return f"INTO {table} VALUES ({', '.join(values)}, {sum_of(*values)})"


PUT = f"INSERT {insert('slots', 5)} ON CONFLICT (key) DO UPDATE SET offset = excluded.offset, due = excluded.due, state = excluded.state, sum = excluded.sum"  # noqa: E501
REGISTER = f"INSERT INTO partitions VALUES (?1, ?2, ?3, 0, -1, {sum_of('?1', '?3', '0', '-1')})"  # noqa: S608 - our own names
REACHED = f"UPDATE partitions SET end_offset = ?1, epoch = ?2, sum = {sum_of('number', 'partition', '?1', '?2')} WHERE number = ?3"  # noqa: E501, S608 - our own names


def is_passing(problem: sqlite3.Error) -> bool:
    """Whether the disk is at fault, or the want of handles or memory, and not what the file holds."""
    # An error that we raise ourselves has no code; the low byte says what the rest details.
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _PASSING


def open_file(path: str) -> sqlite3.Connection:
    """The file's connection; raises if it is not an index of this version, or if anything in it was changed."""
    writer = connect(path)
    try:
        if writer.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            return create(writer)
        if writer.execute("SELECT version FROM stamp").fetchone() != (_VERSION,):
            raise sqlite3.DatabaseError("it is of another version")
        _check(writer)
    except BaseException:
        writer.close()
        raise
    return writer


def _check(writer: sqlite3.Connection) -> None:
    """Raise if what the file holds is not what was written: SQLite has no checksums of its own.

    A wrong due time or offset would be believed, and the message missed or taken for settled.
    """
    for question in ("PRAGMA quick_check(1)", "PRAGMA integrity_check(partitions)"):
        (answer,) = writer.execute(question).fetchone()
        if answer != "ok":
            raise sqlite3.DatabaseError(answer)
    for sums, name, condition in _SUMS_OF_INDEXES:
        by_index = writer.execute(f"{sums} INDEXED BY {name} {condition}").fetchone()
        if by_index != writer.execute(f"{sums} NOT INDEXED {condition}").fetchone():
            raise sqlite3.DatabaseError(f"{name} does not have what the table has")


def sealed(name: str, value: Stored) -> bytes:
    """The value as it is stored, with a CRC of it and of its name."""
    data = VALUES.encode(value)
    return zlib.crc32(data, zlib.crc32(name.encode())).to_bytes(_CRC_BYTES) + data


def unsealed(name: str, data: bytes) -> object:
    """The value, if nothing changed it since it was written."""
    value = data[_CRC_BYTES:]
    if zlib.crc32(value, zlib.crc32(name.encode())).to_bytes(_CRC_BYTES) != data[:_CRC_BYTES]:
        raise sqlite3.DatabaseError(f"what is stored of {name!r} is damaged")
    return VALUES.decode(value)


def create(writer: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables of an empty file."""
    with writer:
        writer.executescript(_TABLES)
        writer.execute("INSERT INTO stamp VALUES (?)", (_VERSION,))
    return writer


def connect(path: str) -> sqlite3.Connection:
    """A connection to the file, or with `:memory:` to none."""
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
