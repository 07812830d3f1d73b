"""The files of one segment through its life: held open while it is active, then the cache's, then gone.

Whoever reads pins them first. Names may be removed and handles retired meanwhile: what is
pinned stays readable.
"""

from __future__ import annotations

from errno import ENOENT

from goqueue.log.segment_cache import SegmentCache, SegmentFiles
from goqueue.log.segment_names import LOG, SEGMENT_SUFFIXES
from goqueue.ports import Files


class PinnedFiles:
    """Where a segment's files lie, and the handles on them. One thread holds and releases, any pins."""

    __slots__ = ("_cache", "_files", "_held", "_released", "stem")

    def __init__(self, files: Files, cache: SegmentCache, stem: str) -> None:
        self._files = files
        self._cache = cache
        self.stem = stem
        # Kept open while active; sealed segments are open only while the cache says so.
        self._held: SegmentFiles | None = None
        self._released = False

    @property
    def path(self) -> str:
        """The `.log` file."""
        return self.stem + LOG

    def open_files(self, *, create: bool = False) -> SegmentFiles:
        """Fresh handles; asked for by the cache, or by whoever makes the segment active."""
        return SegmentFiles(self._files, self.stem, create=create)

    def pin(self) -> SegmentFiles:
        """The open files, which stay open until `unpin`."""
        while not self._released:
            files = self._held or self._cache.get(self)
            self._forget_if_released()
            if files.pin():
                return files
        raise FileNotFoundError(ENOENT, "the segment is gone", self.path)

    def hold(self, *, create: bool = False) -> SegmentFiles:
        """Keep the files open until `release` or `hand_over`, whatever the cache does."""
        if self._held is None:
            self._released = False
            self._held = self.open_files(create=create)
            self._cache.discard(self)
        return self._held

    def hand_over(self) -> SegmentFiles:
        """Leave the files to the cache. They are returned with a pin for the caller."""
        files = self.hold()
        # Before the cache has them: it may retire them at once, and they are not synced yet.
        files.share()
        self._cache.put(self, files)
        self._held = None
        return files

    def release(self) -> None:
        """Close the files once nobody reads them: the segment is deleted, or its log closed."""
        self._released = True
        held, self._held = self._held, None
        if held is not None:
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
