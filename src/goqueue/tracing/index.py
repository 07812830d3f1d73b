"""The index: in which chunks of `__traces` a message occurs. Derived, bounded in memory, rebuilt from the log.

It is a row of SQLite files, each for a stretch of the log, so that old ones go as old segments do. A range of
offsets is found in at most two buckets of its own size, and a message is in one bucket of each size: a lookup
asks for a handful of keys, whatever the log holds. A file that is damaged or of another log is made anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from goqueue.tracing.events import Subject

_VERSION = 1
_CACHE_KIB = 2048
# Of the write-ahead log, before its pages are moved to the file: 400 KB.
_WAL_PAGES = 100
# A file is closed for good when it has so many rows: some 40 MB.
ROWS_MAX = 1_000_000
_SUFFIX = ".index"
_TABLES = """
CREATE TABLE stamp (version INTEGER, topic_id BLOB, base INTEGER, end INTEGER, entries INTEGER);
CREATE TABLE subjects (number INTEGER PRIMARY KEY, topic_id BLOB, partition INTEGER);
CREATE TABLE places (subject INTEGER, level INTEGER, bucket INTEGER, place INTEGER,
                     PRIMARY KEY (subject, level, bucket, place)) WITHOUT ROWID;
CREATE TABLE traces (trace_id BLOB, place INTEGER, PRIMARY KEY (trace_id, place)) WITHOUT ROWID;
"""


class Entry(NamedTuple):
    """What the index takes in of one chunk."""

    place: int
    subject: Subject
    rows: Sequence[tuple[int, int]]
    traces: Sequence[str] = ()

    def has(self, subject: Subject, offset: int) -> bool:
        """Whether the chunk may say something of the message."""
        return subject == self.subject and any(offset >> level == bucket for level, bucket in self.rows)


class TraceIndex:
    """All files of the index. Every call may block; one thread at a time."""

    def __init__(
        self, directory: str | None, topic_id: UUID, *, start: int, end: int, rows_max: int = ROWS_MAX
    ) -> None:
        """`start` and `end` bound the log. `directory` None keeps everything in memory."""
        self._directory = None if directory is None else Path(directory)
        self._topic_id = topic_id
        self._rows_max = rows_max
        self._files: list[_File] = []
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._open_all(self._directory, end)
        self.drop_before(start)
        self.end = self._files[-1].end if self._files else start

    @property
    def file_count(self) -> int:
        """How many files it has."""
        return len(self._files)

    def add(self, entries: Iterable[Entry], end: int) -> None:
        """Take in chunks in the order of the log, which is contained up to `end` from then on."""
        if not self._files or self._files[-1].rows >= self._rows_max:
            self._files.append(_File.make(self._path(self.end), self._topic_id, self.end))
        self._files[-1].add(entries, end)
        self.end = end

    def find(self, subject: Subject, offset: int) -> list[int]:
        """The chunks that may say something of a message, rising."""
        return [place for one in self._files for place in one.find(subject, offset)]

    def find_trace(self, trace_id: str) -> list[int]:
        """The chunks with records that brought this trace id along."""
        return [place for one in self._files for place in one.find_trace(trace_id)]

    def drop_before(self, start: int) -> None:
        """Forget what the log no longer has."""
        while self._files and self._files[0].end <= start:
            self._files.pop(0).remove()

    def remake(self, start: int) -> None:
        """Begin anew: something in the files cannot be read."""
        for one in self._files:
            one.remove()
        self._files.clear()
        self.end = start

    def close(self) -> None:
        """Let go of the files."""
        for one in self._files:
            one.close()

    def size_bytes(self) -> int:
        """What the files take."""
        return sum(one.stat().st_size for one in self._directory.glob(f"*{_SUFFIX}*")) if self._directory else 0

    def _open_all(self, directory: Path, end: int) -> None:
        """Open the files that follow each other and know no more than the log; all others are removed."""
        sound = True
        for path in sorted(directory.glob(f"*{_SUFFIX}")):
            found = _File.open(path, self._topic_id) if sound else None
            follows = found is not None and (not self._files or found.base == self._files[-1].end)
            if found is None or not follows or found.end > end:
                sound = False
                if found is not None:
                    found.close()
                _remove(path)
            else:
                self._files.append(found)

    def _path(self, base: int) -> Path | None:
        return None if self._directory is None else self._directory / f"{base:020d}{_SUFFIX}"


class _File:
    """One file: the chunks from `base` to before `end`."""

    def __init__(self, path: Path | None, connection: sqlite3.Connection, base: int, end: int, rows: int) -> None:
        self.path = path
        self.base = base
        self.end = end
        self.rows = rows
        self._connection = connection
        self._subjects: dict[Subject, int] = {
            Subject(UUID(bytes=topic_id), partition): number
            for number, topic_id, partition in connection.execute("SELECT number, topic_id, partition FROM subjects")
        }
        self._levels: dict[int, set[int]] = {}
        if self._subjects:
            for subject, level in _distinct_levels(connection, self._subjects.values()):
                self._levels.setdefault(subject, set()).add(level)

    @classmethod
    def make(cls, path: Path | None, topic_id: UUID, base: int) -> _File:
        if path is not None:
            _remove(path)
        connection = _connect(path)
        with connection:
            connection.executescript(_TABLES)
            connection.execute("INSERT INTO stamp VALUES (?, ?, ?, ?, 0)", (_VERSION, topic_id.bytes, base, base))
        return cls(path, connection, base, base, 0)

    @classmethod
    def open(cls, path: Path, topic_id: UUID) -> _File | None:
        """The file; None if it is damaged, or of another log or version."""
        connection = None
        try:
            connection = _connect(path)
            version, of_topic, base, end, rows = connection.execute("SELECT * FROM stamp").fetchone()
            if (version, of_topic) == (_VERSION, topic_id.bytes):
                return cls(path, connection, base, end, rows)
        except (sqlite3.DatabaseError, TypeError, ValueError):
            pass
        if connection is not None:
            connection.close()
        return None

    def add(self, entries: Iterable[Entry], end: int) -> None:
        rows: list[tuple[int, int, int, int]] = []
        traces: list[tuple[bytes, int]] = []
        with self._connection:
            for one in entries:
                subject = self._number(one.subject)
                rows += [(subject, level, bucket, one.place) for level, bucket in one.rows]
                self._levels.setdefault(subject, set()).update(level for level, _ in one.rows)
                traces += [(bytes.fromhex(trace), one.place) for trace in one.traces]
            self._connection.executemany("INSERT OR IGNORE INTO places VALUES (?, ?, ?, ?)", rows)
            self._connection.executemany("INSERT OR IGNORE INTO traces VALUES (?, ?)", traces)
            self.rows += len(rows) + len(traces)
            self._connection.execute("UPDATE stamp SET end = ?, entries = ?", (end, self.rows))
        self.end = end

    def find(self, subject: Subject, offset: int) -> list[int]:
        number = self._subjects.get(subject)
        if number is None:
            return []
        found: set[int] = set()
        for level in self._levels.get(number, ()):
            rows = self._connection.execute(
                "SELECT place FROM places WHERE subject = ? AND level = ? AND bucket = ?",
                (number, level, offset >> level),
            )
            found.update(place for (place,) in rows)
        return sorted(found)

    def find_trace(self, trace_id: str) -> list[int]:
        rows = self._connection.execute("SELECT place FROM traces WHERE trace_id = ?", (bytes.fromhex(trace_id),))
        return [place for (place,) in rows]

    def close(self) -> None:
        self._connection.close()

    def remove(self) -> None:
        self.close()
        if self.path is not None:
            _remove(self.path)

    def _number(self, subject: Subject) -> int:
        number = self._subjects.get(subject)
        if number is None:
            number = self._subjects[subject] = len(self._subjects)
            self._connection.execute(
                "INSERT INTO subjects VALUES (?, ?, ?)", (number, subject.topic_id.bytes, subject.partition)
            )
        return number


def _distinct_levels(connection: sqlite3.Connection, subjects: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Of each subject the levels that occur, found by jumping from one to the next through the key."""
    for subject in subjects:
        level = -1
        while True:
            row = connection.execute(
                "SELECT level FROM places WHERE subject = ? AND level > ? ORDER BY level LIMIT 1", (subject, level)
            ).fetchone()
            if row is None:
                break
            level = row[0]
            yield subject, level


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if path is not None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
