"""What of a log is on the disk and what is only written: rounds of syncing, and their failure.

A round is begun and ended by the thread that owns the log; in between, any thread runs
it. If a sync fails, the system may have thrown the bytes away while it keeps showing
them to readers, so no later sync can prove anything: the log is poisoned and takes no
more writes until it is opened again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from errno import EIO

from goqueue.log.durability.failed_sync import leave_note
from goqueue.log.durability.write_failures import lacks_handles
from goqueue.log.segment.pinned_files import PinnedFiles
from goqueue.log.segment.segment_files import SegmentFiles
from goqueue.log.state.checkpoint import LogPoint
from goqueue.ports import Files


class SyncRound:
    """The files that must be synced before everything below `end` is safe."""

    __slots__ = (
        "_active",
        "_active_path",
        "_directory",
        "_failures_before",
        "_files",
        "closed_version",
        "cuts",
        "end",
        "names_version",
        "paths",
        "sealed",
        "stable_end",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        *,
        sealed: Sequence[SegmentFiles],
        active: PinnedFiles | None,
        paths: Sequence[str],
        names_version: int,
        closed_version: int,
        failures_before: int,
        end: LogPoint,
        stable_end: int,
        cuts: int,
    ) -> None:
        self._files = files
        self._directory = directory
        # Pinned here too: the log may be cut, closed or deleted while the round runs.
        # The log's own pin keeps open even what the cache has retired since it was sealed.
        self.sealed = list(sealed)
        for each in self.sealed:
            each.share()
        # Not kept open means that what there is to sync was written by a former life, and a handle that is opened now
        # hears of a failed write like any other; or the files were closed unsynced, and the whole disk is synced.
        held = active.held if active is not None else None
        self._active = held if held is not None and held.pin() else None
        self._active_path = active.path if active is not None else None
        self.paths = list(paths)
        # 0: no name has changed.
        self.names_version = names_version
        # 0: no file was closed before its sync.
        self.closed_version = closed_version
        self._failures_before = failures_before
        self.end = end
        self.stable_end = stable_end
        self.cuts = cuts

    @property
    def needs_whole_disk(self) -> bool:
        """Whether files were closed unsynced: a handle opened now would not hear of a write that failed before."""
        return self.closed_version > 0

    @property
    def file_count(self) -> int:
        """How many files the round syncs: whoever has many rounds may sync the whole disk instead."""
        return sum(len(each.opened()) for each in self.sealed) + len(self.paths) + (self._active_path is not None)

    def run(self) -> None:
        """Sync, oldest segment first. Blocks; raises what the disk says."""
        if self.needs_whole_disk:
            self._files.sync_all()
            self.check_whole_disk()
            return
        for each in self.sealed:
            for file in each.opened():
                file.sync()
        for path in self.paths:
            # A derived file that is gone again needs no sync.
            with suppress(FileNotFoundError):
                sync_file(self._files, path)
        if self._active is not None:
            self._active.log.sync()
        elif self._active_path is not None:
            # Of a former life, and deleted by retention since the round began: there is nothing left to keep.
            with suppress(FileNotFoundError):
                sync_file(self._files, self._active_path)
        if self.names_version:
            self._files.sync_dir(self._directory)

    def check_whole_disk(self) -> None:
        """After a sync of the whole disk: raise if an earlier one failed since the first unsynced byte was written.

        It told of failed writes of any file, once. One of those may have been to a file of this log that is closed.
        """
        if self.needs_whole_disk and self._files.sync_all_failures > self._failures_before:
            raise OSError(EIO, "a sync of the whole disk failed while files of this log were closed", self._directory)

    def release(self) -> None:
        """Let go of the files."""
        for each in self.sealed:
            each.unpin()
        if self._active is not None:
            self._active.unpin()


def sync_file(files: Files, path: str) -> None:
    """Sync a file that is not open."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()


# Not damage: the log has let go of its files, and whoever still holds it may write no more.
CLOSED = "the log is closed"


class SyncTracker:
    """How far one log is synced, and what has been written since."""

    __slots__ = (
        "_closed_synced",
        "_closed_version",
        "_cuts",
        "_directory",
        "_failures_before",
        "_files",
        "_names_synced",
        "_names_version",
        "_paths",
        "_sealed",
        "poison",
        "stable_end",
        "synced",
    )

    def __init__(self, files: Files, directory: str, synced: LogPoint) -> None:
        self._files = files
        self._directory = directory
        self.synced = synced
        # Every transaction with records below is decided, by a marker that is synced too. After a
        # crash nothing is known of that until the first round.
        self.stable_end = 0
        # Why the log takes no more writes; None while it does.
        self.poison: str | None = None
        # Sealed segments that no round has synced yet, pinned so that none is closed before.
        self._sealed: list[SegmentFiles] = []
        self._paths: list[str] = []
        self._names_version = 0
        self._names_synced = 0
        # How often files were closed before their sync, and up to which of these a round has synced the whole disk.
        self._closed_version = 0
        self._closed_synced = 0
        # How often that sync had failed before the oldest byte that is waiting for it was written.
        self._failures_before = 0
        # How often the log was cut: a round begun before says nothing of what was written since.
        self._cuts = 0

    @property
    def has_leftovers(self) -> bool:
        """Whether something besides the active segment waits for a sync."""
        return (
            bool(self._sealed or self._paths)
            or self._names_version > self._names_synced
            or self._closed_version > self._closed_synced
        )

    @property
    def holds_sealed(self) -> bool:
        """Whether sealed segments are kept open for their sync."""
        return bool(self._sealed)

    def add_sealed(self, files: SegmentFiles, segment: PinnedFiles) -> None:
        """A segment was sealed: the next round syncs it and its indexes. The pin on its files is ours now."""
        self._sealed.append(files)
        self._note_closed_unsynced(segment)

    def close_unsynced(self) -> None:
        """Let go of the sealed segments before they are synced, because too many files are open."""
        sealed, self._sealed = self._sealed, []
        for files in sealed:
            self._need_whole_disk(files.sync_failures_before)
            files.unpin()

    def add_path(self, path: str) -> None:
        """A file was written beside the segments."""
        self._paths.append(path)

    def sync_path(self, path: str) -> None:
        """Sync a file here and now, if it still waits for it."""
        if path in self._paths:
            self._paths.remove(path)
            sync_file(self._files, path)

    def change_names(self) -> None:
        """Files were created or removed: the next round syncs the directory."""
        self._names_version += 1

    def begin(self, end: LogPoint, active: PinnedFiles | None, *, stable_end: int) -> SyncRound | None:
        """A round over everything written so far; None if there is nothing to sync.

        No transaction is open now that has records below `stable_end`.
        """
        if active is not None:
            self._note_closed_unsynced(active)
        if end.offset <= self.synced.offset and not self.has_leftovers:
            return None
        return SyncRound(
            self._files,
            self._directory,
            sealed=self._sealed,
            active=active,
            paths=self._paths,
            names_version=self._names_version if self._names_version > self._names_synced else 0,
            closed_version=self._closed_version if self._closed_version > self._closed_synced else 0,
            failures_before=self._failures_before,
            end=end,
            stable_end=stable_end,
            cuts=self._cuts,
        )

    def end(self, done: SyncRound, error: BaseException | None) -> bool:
        """Take a round's outcome; True if everything below its end is safe now."""
        try:
            if lacks_handles(error):
                # A file could not be opened, so that nothing is known of it yet: the next round tries again.
                return False
            if error is not None and self.poison is None:
                self.poison = f"{type(error).__name__}: {error}"
                leave_note(self._files, self._directory, self.poison)
            if self.poison is not None or done.cuts != self._cuts:
                return False
            self._settle(done)
            return True
        finally:
            done.release()

    def end_void(self, done: SyncRound, error: BaseException | None) -> None:
        """Take the outcome of a round that proves nothing any more: only that the disk failed counts."""
        if error is not None and not lacks_handles(error) and self.poison is None:
            self.poison = f"{type(error).__name__}: {error}"
            leave_note(self._files, self._directory, self.poison)
        done.release()

    def cut(self, synced: LogPoint) -> None:
        """The log was cut: rounds under way prove nothing any more."""
        self._cuts += 1
        self.synced = synced
        self.stable_end = min(self.stable_end, synced.offset)

    def drop(self) -> None:
        """Let go of what waits for a sync, without syncing it, and have nothing more to do with the directory.

        A round under way may end after the directory has become another log's: it must not write there.
        """
        self.poison = self.poison or CLOSED
        sealed, self._sealed = self._sealed, []
        self._paths.clear()
        for files in sealed:
            files.unpin()

    def _settle(self, done: SyncRound) -> None:
        # Only what the round held: more may have been sealed or written while it ran.
        for files in [files for files in self._sealed if files in done.sealed]:
            self._sealed.remove(files)
            files.unpin()
        self._paths = [path for path in self._paths if path not in done.paths]
        self._names_synced = max(self._names_synced, done.names_version)
        self._closed_synced = max(self._closed_synced, done.closed_version)

    def _note_closed_unsynced(self, segment: PinnedFiles) -> None:
        failures_before, segment.closed_unsynced = segment.closed_unsynced, None
        if failures_before is not None:
            self._need_whole_disk(failures_before)

    def _need_whole_disk(self, failures_before: int) -> None:
        if self._closed_version == self._closed_synced:
            self._failures_before = failures_before
        self._failures_before = min(self._failures_before, failures_before)
        self._closed_version += 1
