"""What there is to copy: the logs of a data directory, up to one instant.

Indexes and snapshots are left out: a start makes them again from the logs. What groups have
read, what queues have leased and what is delayed lies in logs as well, so it needs no word here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goqueue.backup.files import Piece, tail_of
from goqueue.backup.manifest import LogFile, Manifest

_SEGMENT, _CHECKPOINT = ".log", "partition.ckpt"
_ROOTS = ("metadata", "logs")
# Of how many parts a segment may consist.
PARTS_MAX = 16

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
    """What an earlier backup has as it is, and what must be read: new files, and the ends of those that have grown."""
    known: dict[str, list[LogFile]] = {}
    for file in sorted(parent.files, key=lambda one: one.start) if parent is not None else ():
        known.setdefault(file.path, []).append(file)
    kept: list[LogFile] = []
    fresh: list[Piece] = []
    for piece in pieces:
        parts = known.get(piece.path, [])
        if not parts or not _continues(piece, parts):
            fresh.append(piece)
        elif parts[-1].end == piece.limit:
            kept += parts
        elif len(parts) >= PARTS_MAX:
            # Read once as a whole: a restore opens every part.
            fresh.append(piece)
        else:
            kept += parts
            fresh.append(replace(piece, start=parts[-1].end))
    return kept, fresh


def _continues(piece: Piece, parts: Sequence[LogFile]) -> bool:
    """Whether a segment is what the earlier backup has of it, and perhaps more behind that."""
    last = parts[-1]
    if last.end == piece.limit and last.modified_ns == piece.modified_ns and not piece.is_newest:
        return True
    return last.end <= piece.limit and last.tail_size > 0 and tail_of(piece, last) == last.tail_hash
