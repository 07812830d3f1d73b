"""Open files of one segment: who may use them, and when they are closed.

A reader pins the files it reads; whoever retires them (roll, deletion, too many open)
leaves the closing to the last pin. There is no lock: every step is one operation on a
list or dict, which other threads see done or not done.
"""

from __future__ import annotations

from goqueue.log.segment.file_names import LOG
from goqueue.ports import File, Files


class SegmentFiles:
    """The `.log` of one segment and, once needed, its indexes, open until retired and unpinned."""

    __slots__ = (
        "_files",
        "_opened",
        "_pins",
        "_retired",
        "_stem",
        "_tally",
        "is_owners",
        "is_unsynced",
        "log",
        "sync_failures_before",
    )

    def __init__(self, files: Files, stem: str, *, create: bool = False, tally: list[None] | None = None) -> None:
        self._files = files
        self._stem = stem
        self.log = files.open(stem + LOG, create=create)
        self._opened: dict[str, File] = {LOG: self.log}
        self._pins: list[None] = []
        self._retired = False
        # Has one item for every file that is open.
        self._tally = [] if tally is None else tally
        self._tally.append(None)
        # Something was written to the `.log` through this handle that no sync has covered.
        self.is_unsynced = False
        # The owner of the log had them last, or has them: all that was appended went through these handles.
        self.is_owners = False
        # How often a sync of the whole disk had failed before that was written.
        self.sync_failures_before = 0

    def mark_unsynced(self) -> None:
        """Something is written to the `.log`: from now on a sync is due."""
        if not self.is_unsynced:
            self.sync_failures_before = self._files.sync_all_failures
            self.is_unsynced = True

    def pin(self) -> bool:
        """Keep the files open until `unpin`. False: they are retired, open them anew."""
        self._pins.append(None)
        if self._retired:
            self.unpin()
            return False
        return True

    def share(self) -> None:
        """One more pin for somebody who has one: the files are open, retired or not."""
        self._pins.append(None)

    def unpin(self) -> None:
        """Give up one pin."""
        self._pins.pop()
        if self._retired and not self._pins:
            self._close()

    def retire(self) -> None:
        """Close as soon as nobody holds a pin. No new pin is given."""
        # Set before looking at the pins, as a reader pins before looking at this: one of
        # the two sees the other.
        self._retired = True
        if not self._pins:
            self._close()

    def index(self, suffix: str, *, create: bool = False) -> File | None:
        """The index file of that kind, opened on first use; None if there is none."""
        file = self._opened.get(suffix)
        if file is not None:
            return file
        try:
            file = self._files.open(self._stem + suffix, create=create)
        except FileNotFoundError:
            return None
        self._tally.append(None)
        kept = self._opened.setdefault(suffix, file)
        if kept is not file:
            self._close_one(file)
        return kept

    def opened(self) -> list[File]:
        """The `.log` and every index that has been opened."""
        return list(self._opened.values())

    def _close(self) -> None:
        # Two threads may come here at once; each file is popped, and so closed, by one.
        while self._opened:
            try:
                _, file = self._opened.popitem()
            except KeyError:
                return
            self._close_one(file)

    def _close_one(self, file: File) -> None:
        self._tally.pop()
        file.close()
