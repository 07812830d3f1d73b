"""The files of one segment through its life: kept by the owner of its log, idle in the cache, then gone.

Whoever reads pins them first. Names may be removed and handles retired meanwhile: what is
pinned stays readable.
"""

from __future__ import annotations

from contextlib import suppress
from errno import ENOENT

from goqueue.log.segment.file_names import LOG, SEGMENT_SUFFIXES
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment_files import SegmentFiles
from goqueue.ports import Files


class PinnedFiles:
    """Where a segment's files lie, and the handles on them. One thread holds, rests and releases, any pins."""

    __slots__ = ("_cache", "_files", "_held", "_released", "closed_unsynced", "stem")

    def __init__(self, files: Files, cache: SegmentCache, stem: str) -> None:
        self._files = files
        self._cache = cache
        self.stem = stem
        # Kept open while the owner works on the segment or has unsynced bytes in it; else the cache decides.
        self._held: SegmentFiles | None = None
        self._released = False
        # Files were closed before a sync: how often a sync of the whole disk had failed before they were written.
        self.closed_unsynced: int | None = None

    @property
    def path(self) -> str:
        """The `.log` file."""
        return self.stem + LOG

    @property
    def held(self) -> SegmentFiles | None:
        """The files, if the owner keeps them: only then can anything unsynced have been written through them."""
        return self._held

    def open_files(self, tally: list[None], *, create: bool = False) -> SegmentFiles:
        """Fresh handles; asked for by the cache, which keeps the tally of them."""
        return SegmentFiles(self._files, self.stem, create=create, tally=tally)

    def pin(self) -> SegmentFiles:
        """The open files, which stay open until `unpin`."""
        while not self._released:
            files = self._held or self._cache.get(self)
            self._forget_if_released()
            if files.pin():
                return files
        raise FileNotFoundError(ENOENT, "the segment is gone", self.path)

    def hold(self, *, create: bool = False) -> SegmentFiles:
        """Keep the files open until `rest`, `release` or `hand_over`, whatever the cache does."""
        files = self._held
        if files is None:
            self._released = False
            files = self._held = self._cache.take(self, create=create)
            # Opened by a reader meanwhile: it would not see what the owner appends.
            self._cache.discard(self)
            if not files.is_owners:
                # A reader's, perhaps opened before the owner's last append.
                for file in files.opened():
                    file.look_again()
                files.is_owners = True
        return files

    def rest(self) -> None:
        """Let the cache close the files when it needs room, unless something unsynced was written through them."""
        files = self._held
        if files is not None and not files.is_unsynced:
            if self._cache.is_full:
                # Whoever closes them may not give room back, because the owner may be appending again by then.
                with suppress(OSError):
                    files.log.finish()
            self._cache.give_back(self, files)
            self._held = None

    def close_unsynced(self) -> None:
        """Close the files before they are synced, because too many are open: see `SegmentCache`."""
        files, self._held = self._held, None
        if files is not None:
            if files.is_unsynced and self.closed_unsynced is None:
                self.closed_unsynced = files.sync_failures_before
            files.retire()

    def hand_over(self) -> SegmentFiles:
        """Leave the files to the cache. They are returned with a pin for the caller."""
        files = self.hold()
        self._cache.forget_unsynced(self)
        # Before the cache has them: it may retire them at once, and they are not synced yet.
        files.share()
        self._cache.give_back(self, files)
        self._held = None
        return files

    def release(self) -> None:
        """Close the files once nobody reads them: the segment is deleted, or its log closed."""
        self._released = True
        self._cache.forget_unsynced(self)
        held, self._held = self._held, None
        if held is not None:
            with suppress(OSError):
                held.log.finish()
            held.retire()
        self._cache.discard(self)

    def remove_files(self) -> None:
        """Delete the segment from the disk; readers that pinned it go on reading."""
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._files.remove(self.stem + suffix)

    def _forget_if_released(self) -> None:
        # Released while it was opened: the cache must not keep what nobody will ask for again.
        if self._released:
            self._cache.discard(self)
