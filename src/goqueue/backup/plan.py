"""What there is to copy: the logs of a data directory, up to one instant.

Indexes and snapshots are left out: a start makes them again from the logs. What groups have
read, what queues have leased and what is delayed lies in logs as well, so it needs no word here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from goqueue.backup.files import Piece
from goqueue.backup.manifest import LogFile, Manifest

_SEGMENT, _CHECKPOINT = ".log", "partition.ckpt"
_ROOTS = ("metadata", "logs")

# (directory, segment) -> the bytes that were written at the instant
Ends = Mapping[tuple[str, str], int]


def checkpoints(root: Path) -> dict[str, bytes]:
    """The checkpoints as they are now, by path. Taken before the instant, so that none knows more than its log."""
    found = {}
    for top in _ROOTS:
        for path in sorted((root / top).rglob(_CHECKPOINT)):
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def segments(root: Path, ends: Ends) -> list[Piece]:
    """The segments of all logs, each up to where it ended at the instant; later ones are left out."""
    pieces: list[Piece] = []
    for top in _ROOTS:
        for directory in sorted({path.parent for path in (root / top).rglob(f"*{_SEGMENT}")}):
            pieces += _of_log(root, directory, ends)
    return pieces


def _of_log(root: Path, directory: Path, ends: Ends) -> list[Piece]:
    relative = str(directory.relative_to(root))
    names = sorted(path.name for path in directory.glob(f"*{_SEGMENT}"))
    newest = next((name for where, name in ends if where == relative), names[-1])
    pieces = []
    for name in names:
        if name > newest:
            break
        status = (directory / name).stat()
        limit = ends.get((relative, name), status.st_size)
        if limit:
            pieces.append(Piece(str(root), f"{relative}/{name}", limit, status.st_mtime_ns, True, name == newest))
    return pieces


def unchanged(pieces: Sequence[Piece], parent: Manifest | None) -> tuple[list[LogFile], list[Piece]]:
    """Files that an earlier backup has as they are, and those that must be read."""
    known = {file.path: file for file in parent.files} if parent is not None else {}
    kept, fresh = [], []
    for piece in pieces:
        file = known.get(piece.path)
        is_same = file is not None and (file.size, file.modified_ns) == (piece.limit, piece.modified_ns)
        if is_same and file is not None and not piece.is_newest:
            kept.append(file)
        else:
            fresh.append(piece)
    return kept, fresh
