"""The names of files that a batch is about to write, so that what a kill leaves behind can be removed.

A task announces every file before it writes it. What was announced and is not in the table is an orphan: the files of
tasks that Spark ran twice, and all files of a batch that was killed before its commit. Data folders are never
listed: other writers have files there that are in no commit yet.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType

from goqueue.pipeline.lake.table import Batch

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


# Stores have none, and would keep an empty object in place of each.
_WITH_FOLDERS = frozenset({"local", "subtree", "hdfs"})
# No path has it.
_BETWEEN = "\0"


class WriteLog:
    """A folder per query, in it a folder per attempt of a batch, in it one small file per announced file."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder

    def begin(self, batch: Batch) -> str:
        """The name of a new attempt to write a batch."""
        return attempt_name(batch, secrets.randbits(48))

    def announce(self, attempt: str, *paths: str) -> None:
        """Say that files are about to be written, or, if they were of old versions, removed."""
        folder = f"{self._folder}/{attempt}"
        if self._files.type_name in _WITH_FOLDERS:
            self._files.create_dir(folder, recursive=True)
        with self._files.open_output_stream(f"{folder}/{uuid.uuid4().hex}") as note:
            note.write(_BETWEEN.join(paths).encode())

    def drop_unused(self, attempt: str, used: Collection[str]) -> int:
        """Remove the files of an attempt that its commit will not name; returns how many."""
        dropped = 0
        for note, paths in self._announced(attempt):
            unused = [path for path in paths if path not in used]
            # The files first: a note without its file does no harm.
            for one in [*unused, note] if unused else ():
                with contextlib.suppress(FileNotFoundError):
                    self._files.delete_file(one)
            dropped += len(unused)
        return dropped

    def forget(self, attempt: str) -> None:
        """The attempt is committed: its files belong to the table now."""
        self._remove_folder(f"{self._folder}/{attempt}")

    def discard(self, attempt: str) -> None:
        """The attempt is given up: its files are removed."""
        self.drop_unused(attempt, ())
        self.forget(attempt)

    def sweep(
        self, query: str, last_batch: int, last_attempt: str | None, in_table: Callable[[], Collection[str]]
    ) -> int:
        """Remove what attempts up to the last batch left, other than the one that was committed; returns how many."""
        removed = 0
        for attempt in self.attempts(query):
            number = int(attempt.rpartition("/")[2].partition(".")[0])
            if number > last_batch:
                continue
            if attempt != last_attempt:
                # Tables of older versions do not tell the attempt, and an earlier batch may have been committed by a
                # driver that was killed at once.
                removed += self.drop_unused(attempt, in_table())
            self.forget(attempt)
        return removed

    def attempts(self, query: str) -> list[str]:
        """Those that have left something."""
        return [f"{query}/{name}" for name in self._names(f"{self._folder}/{query}")]

    def _announced(self, attempt: str) -> Iterator[tuple[str, list[str]]]:
        folder = f"{self._folder}/{attempt}"
        for name in self._names(folder):
            with self._files.open_input_stream(f"{folder}/{name}") as note:
                yield f"{folder}/{name}", note.read().decode().split(_BETWEEN)

    def _names(self, folder: str) -> list[str]:
        found = self._files.get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
        inside = {one.path.rpartition(f"{folder.lstrip('/')}/")[2].split("/")[0] for one in found if _is_file(one.type)}
        return sorted(filter(None, inside))

    def _remove_folder(self, folder: str) -> None:
        for name in self._names(folder):
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_file(f"{folder}/{name}")
        if self._files.type_name in _WITH_FOLDERS:
            with contextlib.suppress(OSError):
                self._files.delete_dir(folder)


def attempt_name(batch: Batch, number: int) -> str:
    """How an attempt at a batch is called."""
    return f"{batch.query}/{batch.number}.{number:012x}"


def attempt_number(attempt: str) -> int:
    """What tells an attempt from others at its batch."""
    return int(attempt.rpartition(".")[2], 16)


def _is_file(kind: FileType) -> bool:
    return kind is FileType.File
