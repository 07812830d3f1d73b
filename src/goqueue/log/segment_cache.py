"""Open files of segments: who may use them, and when they are closed.

A reader pins the files it reads; whoever retires them (roll, deletion, too many open)
leaves the closing to the last pin. There is no lock: every step is one operation on a
list or dict, which other threads see done or not done.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.log.segment_names import LOG
from goqueue.ports import File, Files

if TYPE_CHECKING:
    from goqueue.log.pinned_files import PinnedFiles


class SegmentFiles:
    """The `.log` of one segment and, once needed, its indexes, open until retired and unpinned."""

    __slots__ = ("_files", "_opened", "_pins", "_retired", "_stem", "log")

    def __init__(self, files: Files, stem: str, *, create: bool = False) -> None:
        self._files = files
        self._stem = stem
        self.log = files.open(stem + LOG, create=create)
        self._opened: dict[str, File] = {LOG: self.log}
        self._pins: list[None] = []
        self._retired = False

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
        kept = self._opened.setdefault(suffix, file)
        if kept is not file:
            file.close()
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
            file.close()


class SegmentCache:
    """The sealed segments that are open, the least recently used of which is closed for a new one.

    One per process, shared by all its logs, so that the number of open files has a limit.
    """

    def __init__(self, open_segments_max: int) -> None:
        self._open: OrderedDict[PinnedFiles, SegmentFiles] = OrderedDict()
        self._open_max = open_segments_max

    def __len__(self) -> int:
        return len(self._open)

    def get(self, segment: PinnedFiles) -> SegmentFiles:
        """The segment's files, opened if need be. Not pinned yet."""
        found = self._open.get(segment)
        if found is None:
            return self.put(segment, segment.open_files())
        # It may have been closed by another thread just now: then its pin fails, and it asks again.
        with suppress(KeyError):
            self._open.move_to_end(segment)
        return found

    def put(self, segment: PinnedFiles, files: SegmentFiles) -> SegmentFiles:
        """Keep the segment's files open for later; returns those that are kept."""
        kept = self._open.setdefault(segment, files)
        if kept is not files:
            files.retire()
        while len(self._open) > self._open_max:
            try:
                _, oldest = self._open.popitem(last=False)
            except KeyError:
                break
            oldest.retire()
        return kept

    def discard(self, segment: PinnedFiles) -> None:
        """Close the segment's files: it is deleted, replaced or active again."""
        files = self._open.pop(segment, None)
        if files is not None:
            files.retire()
