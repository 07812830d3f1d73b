"""A disk in memory: what has been written, what would survive a power cut, and the cut itself.

Every file and every directory exists twice: as programs see it now, and as the platter has
it. A list of pending operations leads from the second to the first; syncing shortens the
list, a crash applies only a part of it. The rules are those of a journaling file system,
read unkindly: operations on one file, or on the names of one directory, reach the platter
in their order; operations on different ones in any order; syncing a file says nothing of
its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random

PAGE_BYTES = 4096


class Survival(Enum):
    """How much unsynced work a crash leaves behind."""

    NOTHING = "nothing"
    SOME = "some"
    EVERYTHING = "everything"


@dataclass(slots=True, eq=False)
class Inode:
    """One file's bytes. The pending steps lead from `durable` to `content`."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Append | Truncate] = field(default_factory=list)

    def append(self, data: bytes) -> None:
        """Write at the end, into the cache."""
        self.pending.append(Append(len(self.content), bytearray(data)))
        self.content += data

    def truncate(self, size: int) -> None:
        """Cut, or lengthen with zeros as the system call does."""
        if size > len(self.content):
            self.append(bytes(size - len(self.content)))
        elif size < len(self.content):
            del self.content[size:]
            self.pending.append(Truncate(size))

    def sync(self) -> None:
        """Everything pending is on the platter."""
        for step in self.pending:
            step.apply(self.durable)
        self.pending.clear()

    def lose_pending_writes(self) -> None:
        """A failed fsync marks dirty pages clean: later syncs succeed and store nothing for them."""
        for step in self.pending:
            if isinstance(step, Append):
                step.data[:] = bytes(len(step.data))

    def flip(self, position: int, bit: int) -> None:
        """Rot one bit, wherever the byte is kept."""
        self.content[position] ^= 1 << bit
        if position < len(self.durable):
            self.durable[position] ^= 1 << bit
        for step in self.pending:
            if isinstance(step, Append) and step.start <= position < step.start + len(step.data):
                step.data[position - step.start] ^= 1 << bit


@dataclass(slots=True, eq=False)
class Folder:
    """One directory's names, as seen and as stored."""

    entries: dict[str, Inode | Folder] = field(default_factory=dict)
    durable: dict[str, Inode | Folder] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Append:
    """Bytes on their way to the platter."""

    start: int
    data: bytearray

    def apply(self, durable: bytearray) -> None:
        """Reach the platter."""
        durable[self.start :] = self.data


@dataclass(frozen=True, slots=True)
class Truncate:
    """A cut on its way to the platter."""

    size: int

    def apply(self, durable: bytearray) -> None:
        """Reach the platter."""
        del durable[self.size :]


@dataclass(frozen=True, slots=True)
class NameChange:
    """Entries added or removed as one step: a rename touches two names, perhaps in two folders."""

    removed: tuple[tuple[Folder, str], ...]
    added: tuple[tuple[Folder, str, Inode | Folder], ...]

    def touches(self, folders: set[int]) -> bool:
        """Whether any of these folders is involved."""
        return not folders.isdisjoint(self.folders())

    def folders(self) -> set[int]:
        """The folders involved, by identity."""
        return {id(folder) for folder, *_ in (*self.removed, *self.added)}

    def apply(self, entries_of: Callable[[Folder], dict[str, Inode | Folder]]) -> None:
        """Change the names in the seen or in the stored entries."""
        for folder, name in self.removed:
            entries_of(folder).pop(name, None)
        for folder, name, node in self.added:
            entries_of(folder)[name] = node


class MemoryDisk:
    """The tree of folders and files, and the journal of changed names not yet synced."""

    def __init__(self) -> None:
        self.root = Folder()
        self._journal: list[NameChange] = []

    def change_names(self, change: NameChange) -> None:
        """Make the change visible at once; it survives when its folder is synced."""
        change.apply(_seen)
        self._journal.append(change)

    def sync_folder(self, folder: Folder) -> None:
        """Store the folder's names, with all earlier changes those depend on."""
        wanted = {id(folder)}
        stored: list[NameChange] = []
        left: list[NameChange] = []
        for change in reversed(self._journal):
            if change.touches(wanted):
                wanted |= change.folders()
                stored.append(change)
            else:
                left.append(change)
        for change in reversed(stored):
            change.apply(_stored)
        self._journal = left[::-1]

    def sync_everything(self) -> None:
        """Store every name and every byte."""
        for change in self._journal:
            change.apply(_stored)
        self._journal.clear()
        for inode in self.inodes():
            inode.sync()

    def lose_pending_writes(self) -> None:
        """What a failed sync of everything leaves: all dirty pages marked clean."""
        for inode in self.inodes():
            inode.lose_pending_writes()

    def used_bytes(self) -> int:
        """Space taken by the files that can be seen."""
        return sum(len(inode.content) for inode in self.inodes())

    def inodes(self) -> Iterator[Inode]:
        """Every file that can be seen."""
        folders = [self.root]
        while folders:
            for node in folders.pop().entries.values():
                if isinstance(node, Folder):
                    folders.append(node)
                else:
                    yield node

    def crash(self, rng: Random, survival: Survival, *, holes: bool = False) -> None:
        """Cut the power: what was not synced survives in part, then seen and stored are one again.

        With `holes`, pages inside the surviving unsynced bytes may read as zeros, as when
        the pages of one file were written back out of order.
        """
        self._settle_names(rng, survival)
        folders = [self.root]
        while folders:
            folder = folders.pop()
            folder.entries = dict(folder.durable)
            for _, node in sorted(folder.entries.items()):
                if isinstance(node, Folder):
                    folders.append(node)
                else:
                    _settle_bytes(node, rng, survival, holes=holes)

    def _settle_names(self, rng: Random, survival: Survival) -> None:
        # Journals commit in order, so once a folder misses one change it misses the rest.
        missed: set[int] = set()
        chance = {Survival.NOTHING: 0.0, Survival.SOME: rng.random(), Survival.EVERYTHING: 1.0}[survival]
        for change in self._journal:
            if change.touches(missed) or rng.random() >= chance:
                missed |= change.folders()
            else:
                change.apply(_stored)
        self._journal.clear()


def _seen(folder: Folder) -> dict[str, Inode | Folder]:
    return folder.entries


def _stored(folder: Folder) -> dict[str, Inode | Folder]:
    return folder.durable


def _settle_bytes(inode: Inode, rng: Random, survival: Survival, *, holes: bool) -> None:
    """Keep the first steps of the pending ones, the last of them perhaps torn."""
    synced_size = len(inode.durable)
    kept = _steps_kept(len(inode.pending), rng, survival)
    for step in inode.pending[:kept]:
        step.apply(inode.durable)
    torn = inode.pending[kept] if kept < len(inode.pending) and survival is Survival.SOME else None
    if isinstance(torn, Append):
        # The end is as likely as the middle: whole headers and single bytes are the hard cases.
        cut = rng.choice((0, min(len(torn.data), rng.randrange(64)), rng.randrange(len(torn.data) + 1)))
        inode.durable[torn.start :] = torn.data[:cut]
    if holes and survival is Survival.SOME and len(inode.durable) > synced_size:
        _punch_hole(inode.durable, synced_size, rng)
    inode.pending.clear()
    inode.content = bytearray(inode.durable)


def _steps_kept(count: int, rng: Random, survival: Survival) -> int:
    if survival is Survival.EVERYTHING:
        return count
    if survival is Survival.NOTHING:
        return 0
    return rng.choice((0, count, rng.randrange(count + 1)))


def _punch_hole(durable: bytearray, synced_size: int, rng: Random) -> None:
    page = rng.randrange(synced_size, len(durable)) // PAGE_BYTES
    start = max(page * PAGE_BYTES, synced_size)
    end = min((page + 1) * PAGE_BYTES, len(durable))
    durable[start:end] = bytes(end - start)
