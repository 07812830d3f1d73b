"""What a backup consists of: one manifest per backup, over objects that backups share.

    target/backups/20261116T120000Z.json    what was where, with sizes and hashes
    target/objects/3f/3f9c...               a file's bytes, named by their hash

The manifest comes last. So a backup that was killed half-way is no backup, and its objects serve the next one.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.errors import GoQueueError

# 1 had other hashes (murmur3), which nothing here computes. 2 had a file in one part, and no encryption.
FORMAT = 3
_READABLE = (2, 3)
HASH = "xxh3-128"

# A manifest may come from a place that others can write to: neither a path nor a hash of it may lead out of the folder.
_Inside = Annotated[str, msgspec.Meta(pattern=r"^(?!/)(?!(.*/)?\.\.(/|$))[^\0]+$")]
_Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]


class BackupNotFound(GoQueueError):
    """There is no backup of that name, or none at all."""


class BackupUnreadable(GoQueueError):
    """The backup is of a form that this version does not know."""


class LogFile(msgspec.Struct, frozen=True):
    """One file of the broker, a segment or a checkpoint; or a part of a segment that has grown since the last backup.

    The parts of a segment follow each other without a gap, and each begins and ends with a frame.
    """

    path: _Inside
    size: int
    hash: _Hash
    kind: Literal["segment", "checkpoint"]
    modified_ns: int = 0
    frames: int = 0
    first_offset: int = -1
    # One more than the last offset; what a restore must serve.
    end_offset: int = -1
    first_ms: int = -1
    last_ms: int = -1
    # Where in the segment the part begins.
    start: int = 0
    # Size and hash of its last frame. While a log has the same frame there, all before it is the same: logs are
    # appended to and cut off at the end, and a frame holds its offset, its time and its checksum.
    tail_size: int = 0
    tail_hash: str = ""

    @property
    def end(self) -> int:
        """Where in the segment the part ends."""
        return self.start + self.size

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
    # How objects are encrypted: "age", or not.
    encryption: Literal["age"] | None = None

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


def encode_manifest(manifest: Manifest) -> bytes:
    """As it is stored: JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(manifest))


def decode_manifest(name: str, content: bytes) -> Manifest:
    """Read a stored manifest; raises `BackupUnreadable` for a format that is not ours."""
    try:
        form = msgspec.json.decode(content, type=_Form)
        if form.format in _READABLE and form.hash == HASH:
            return msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupUnreadable(f"the manifest of backup {name} is damaged: {error}") from None
    raise BackupUnreadable(
        f"backup {name} has format {form.format} with hashes by {form.hash}, and this version reads formats "
        f"{' and '.join(map(str, _READABLE))} with {HASH}: use the version that made it, or take a new one by "
        "`goqueue backup create --full`"
    )
