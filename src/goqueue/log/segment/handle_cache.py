"""The open segments of a node: how many files they may have open, and which are closed first.

A segment is *idle* or *kept*. Idle ones, sealed or active, are closed when there are too many files open, the
least recently used first. A kept one stays open: its owner is working on it, or has written through it what is not
synced yet. A descriptor that is opened later does not hear of a write that failed before, so what is closed unsynced
can no longer be synced by `fdatasync`. With far too many kept ones the oldest are closed all the same, and their logs
are synced by `syncfs` instead: since Linux 5.8 it reports every failed write of the file system since its own
descriptor last reported one, and that descriptor is open for good. Where `syncfs` cannot do that, one more is refused.

There is no lock: whoever pops a segment from the idle ones has it alone. What is kept belongs to the thread that owns
the logs, and only that thread closes any of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from errno import EMFILE
from typing import TYPE_CHECKING, Protocol

from goqueue.log.segment.segment_files import SegmentFiles

if TYPE_CHECKING:
    from goqueue.log.segment.pinned_files import PinnedFiles


class Unsynced(Protocol):
    """Has files open that must be synced through these handles."""

    def close_unsynced(self) -> None:
        """Close them, and remember that only a sync of the whole disk will do now."""
        ...


class SegmentCache:
    """One per process, shared by all its logs, so that the number of open files has a limit.

    `open_files_max` is where idle segments begin to be closed. `kept_files_max` is where unsynced ones are closed too,
    or where no more are kept if not `may_close_unsynced`. `on_crowded` is called from half the way to there on, by the
    thread that owns the logs, and should have the kept ones synced.
    """

    def __init__(
        self,
        open_files_max: int,
        *,
        kept_files_max: int | None = None,
        on_crowded: Callable[[], None] | None = None,
        may_close_unsynced: bool = False,
    ) -> None:
        self.open_files_max = open_files_max
        self.kept_files_max = kept_files_max
        self._on_crowded = on_crowded
        self._crowded_from = (open_files_max + kept_files_max) // 2 if kept_files_max is not None else 0
        self._idle: OrderedDict[PinnedFiles, SegmentFiles] = OrderedDict()
        # One item for each open file of ours: its length is changed in one step by any thread.
        self._tally: list[None] = []
        self._may_close_unsynced = may_close_unsynced
        # Whose files only the thread that owns the logs may close, unsynced ones and a few more; oldest first.
        self._unsynced: OrderedDict[Unsynced, None] = OrderedDict()
        # Since the start, for the metrics page.
        self.closed_unsynced = 0

    def __len__(self) -> int:
        return len(self._idle)

    @property
    def open_files(self) -> int:
        """Files of segments that are open now, kept ones included."""
        return len(self._tally)

    @property
    def is_full(self) -> bool:
        """Whether what becomes idle now is closed soon."""
        return len(self._tally) >= self.open_files_max

    def open(self, segment: PinnedFiles, *, create: bool = False) -> SegmentFiles:
        """Fresh handles that count here until they are closed."""
        return segment.open_files(self._tally, create=create)

    def get(self, segment: PinnedFiles) -> SegmentFiles:
        """The files of a segment that is not kept, opened if need be. Not pinned yet."""
        found = self._idle.get(segment)
        if found is None:
            return self.put(segment, self.open(segment))
        # It may have been closed by another thread just now: then its pin fails, and it asks again.
        with suppress(KeyError):
            self._idle.move_to_end(segment)
        return found

    def take(self, segment: PinnedFiles, *, create: bool = False) -> SegmentFiles:
        """The files of a segment whose owner keeps them from now on: they are not ours to close."""
        found = self._idle.pop(segment, None)
        if found is not None:
            return found
        self._close_idle(room=1)
        self._check_room(segment)
        return self.open(segment, create=create)

    def put(self, segment: PinnedFiles, files: SegmentFiles) -> SegmentFiles:
        """Make the segment idle; returns the files that are open for it, which a reader may have opened meanwhile."""
        kept = self._idle.setdefault(segment, files)
        if kept is not files:
            files.retire()
        self._close_idle()
        return kept

    def give_back(self, segment: PinnedFiles, files: SegmentFiles) -> None:
        """The owner is done: these files count, and none that a reader opened before the owner's last append."""
        while self._idle.setdefault(segment, files) is not files:
            self.discard(segment)
        self._close_idle()

    def discard(self, segment: PinnedFiles) -> None:
        """Close the segment's files, if it is idle: it is deleted, replaced or kept again."""
        files = self._idle.pop(segment, None)
        if files is not None:
            files.retire()

    def note_unsynced(self, owner: Unsynced) -> None:
        """The owner keeps files that are not synced. For the thread that owns the logs alone: it may close others."""
        if self.kept_files_max is None or not self._may_close_unsynced:
            return
        self._unsynced[owner] = None
        self._unsynced.move_to_end(owner)
        # Never the one that came last: it is being written to.
        while len(self._tally) > self.kept_files_max and len(self._unsynced) > 1:
            oldest, _ = self._unsynced.popitem(last=False)
            oldest.close_unsynced()
            self.closed_unsynced += 1

    def note_recovered(self, owner: Unsynced) -> None:
        """As `note_unsynced`, from any thread: nothing else is closed, the owner's next write will do it."""
        if self._may_close_unsynced:
            self._unsynced[owner] = None

    def may_keep(self, owner: Unsynced) -> bool:
        """Whether the owner may keep its files although they are synced: there is room, and we could close them."""
        return 2 * len(self._tally) < self.open_files_max and owner in self._unsynced

    def forget_unsynced(self, owner: Unsynced) -> None:
        """The owner's files are synced, closed or deleted."""
        self._unsynced.pop(owner, None)

    def _close_idle(self, *, room: int = 0) -> None:
        # Never the one that came last: whoever put it there is about to pin it.
        while len(self._idle) > 1 and len(self._tally) + room > self.open_files_max:
            try:
                _, oldest = self._idle.popitem(last=False)
            except KeyError:
                break
            oldest.retire()

    def _check_room(self, segment: PinnedFiles) -> None:
        if self.kept_files_max is None:
            return
        count = len(self._tally)
        if count >= self._crowded_from and self._on_crowded is not None:
            self._on_crowded()
        if count >= self.kept_files_max and not self._may_close_unsynced:
            raise OSError(EMFILE, f"{count} files of segments are open, unsynced ones among them", segment.path)
