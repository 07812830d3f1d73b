"""The data directory: whose it is, how often it was started, and whether its last stop was a clean one.

Every start writes a new epoch and a new token into the directory, once the metadata is found to be its
own and before any other log is opened. A clean stop leaves a mark with this epoch and token, after
everything was closed in order. The next start finds the mark to be that of the last start, or not; it
then writes the next epoch, so a mark counts once. A start that is refused before leaves all as it was.

Neither file is part of a backup of logs and metadata: a copy is another directory.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from uuid import UUID

import msgspec

from goqueue.clock import Rng
from goqueue.ports import Files

IDENTITY = "directory.json"
CLEAN_STOP = "clean-stop.json"


class Start(msgspec.Struct, frozen=True):
    """One start of a node on this directory. The content of both files."""

    directory_id: UUID
    epoch: int
    token: str


class DataDirectory:
    """The directory during one life of the node."""

    def __init__(self, files: Files) -> None:
        """Look at the mark of the last life. Nothing is changed before `begin`. Blocks."""
        self._files = files
        self._last = _read(files, IDENTITY)
        self._id: UUID | None = None
        self.start: Start | None = None
        # None: the directory has no identity yet. It is new, or older than the mark, or a copy.
        self.was_clean: bool | None = None
        if files.exists(IDENTITY):
            self.was_clean = self._last is not None and _read(files, CLEAN_STOP) == self._last
        self._is_orderly = True

    @property
    def last_epoch(self) -> int:
        """The epoch of the last start; 0 before the first."""
        return 0 if self._last is None else self._last.epoch

    def identity(self, rng: Rng) -> UUID:
        """The id of the directory. A new one gets its id now, and keeps it once a life has begun."""
        if self._id is None:
            last = self._last
            self._id = UUID(int=rng.getrandbits(128), version=4) if last is None else last.directory_id
        return self._id

    def begin(self, rng: Rng, epoch: int | None = None) -> Start:
        """Begin a life: take the mark of the last one away, so that it is never believed again. Blocks.

        `epoch` is that of the node in its cluster; None: the next number. A life may begin anew with a later one.
        """
        if self._files.exists(CLEAN_STOP):
            # On a full disk the next epoch cannot be written, but the mark can be removed.
            self._files.remove(CLEAN_STOP)
            self._files.sync_dir("")
        self.start = Start(
            directory_id=self.identity(rng),
            epoch=self.last_epoch + 1 if epoch is None else epoch,
            token=f"{rng.getrandbits(128):032x}",
        )
        try:
            self._files.replace(IDENTITY, msgspec.json.encode(self.start))
        except OSError:
            self.spoil()
        return self.start

    def spoil(self) -> None:
        """Something was not closed in order: the stop to come is no clean one."""
        self._is_orderly = False

    def leave(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the life, if it has begun, after all else is closed; with an error, or once spoiled, without a mark.

        Blocks.
        """
        del error, trace
        if self.start is not None and kind is None and self._is_orderly:
            # Without the mark the next start is as after a crash, which loses nothing.
            with suppress(OSError):
                self._files.replace(CLEAN_STOP, msgspec.json.encode(self.start))


def _read(files: Files, path: str) -> Start | None:
    """What the file holds; None if it is missing or cannot be read."""
    try:
        return msgspec.json.decode(files.read(path), type=Start)
    except (OSError, msgspec.DecodeError):
        return None
