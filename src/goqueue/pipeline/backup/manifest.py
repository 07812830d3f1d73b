"""What a backup consists of: one manifest per backup, over objects that backups share.

    target/backups/20261116T120000Z.json    what was where, with sizes and hashes
    target/objects/3f/3f9c...               a file's bytes, named by their hash

An object is written under another name, synced and renamed; the manifest comes last, in the
same way. So a backup that was killed half-way is no backup, and its objects serve the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from goqueue.errors import GoQueueError
from goqueue.pipeline.whole import write_durably

# 1 had other hashes (murmur3), which nothing here computes.
FORMAT = 2
HASH = "xxh3-128"


class BackupNotFound(GoQueueError):
    """There is no backup of that name, or none at all."""


class BackupUnreadable(GoQueueError):
    """The backup is of a form that this version does not know."""


class LogFile(msgspec.Struct, frozen=True):
    """One file of the broker: a segment, or a checkpoint."""

    path: str
    size: int
    hash: str
    kind: Literal["segment", "checkpoint"]
    modified_ns: int = 0
    frames: int = 0
    first_offset: int = -1
    # One more than the last offset; what a restore must serve.
    end_offset: int = -1
    first_ms: int = -1
    last_ms: int = -1

    @property
    def partition(self) -> str:
        """The directory of the log, as `logs/orders/0`."""
        return self.path.rpartition("/")[0]


class Manifest(msgspec.Struct, frozen=True):
    """One backup."""

    name: str
    taken_ms: int
    files: list[LogFile]
    # "running": at an instant that the broker named; "stopped": nobody was writing.
    broker: Literal["running", "stopped"]
    parent: str | None = None
    format: int = FORMAT
    # How the files' hashes were computed.
    hash: str = HASH

    def ends(self) -> dict[str, int]:
        """The end of every log, by its directory."""
        ends: dict[str, int] = {}
        for file in self.files:
            if file.kind == "segment" and file.frames:
                ends[file.partition] = max(file.end_offset, ends.get(file.partition, 0))
        return ends


class _Form(msgspec.Struct, frozen=True):
    """What is looked at first. Format 1 did not name its hash."""

    format: int
    hash: str = "murmur3"


class BackupStore:
    """The folder in which backups lie."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def object_path(self, hash_: str) -> Path:
        """Where the bytes with this hash lie."""
        return self.target / "objects" / hash_[:2] / hash_

    def names(self) -> list[str]:
        """The backups, oldest first."""
        return sorted(path.stem for path in (self.target / "backups").glob("*.json"))

    def read(self, name: str | None = None) -> Manifest:
        """A backup by its name; the newest unless named."""
        names = self.names()
        if not names or (name is not None and name not in names):
            told = f"there are {', '.join(names)}" if names else f"there is no backup in {self.target}"
            raise BackupNotFound(f"no backup {name!r}: {told}" if name else told)
        chosen = name or names[-1]
        content = (self.target / "backups" / f"{chosen}.json").read_bytes()
        form = msgspec.json.decode(content, type=_Form)
        if form != _Form(FORMAT, HASH):
            raise BackupUnreadable(
                f"backup {chosen} has format {form.format} with hashes by {form.hash}, and this version reads format "
                f"{FORMAT} with {HASH}: use the version that made it, or take a new one by `goqueue jobs backup --full`"
            )
        return msgspec.json.decode(content, type=Manifest)

    def write(self, manifest: Manifest) -> Path:
        """Make the backup one: from now on it is listed."""
        path = self.target / "backups" / f"{manifest.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, msgspec.json.format(msgspec.json.encode(manifest)))
        return path
