"""What happens to one file: copied and checked, checked again, or laid back. Each is one task, of a thread or of Spark.

A segment's frames carry checksums of their own; the file as a whole gets a hash. Both are
computed in one pass, the hash right behind the checksums while the bytes are in the processor's
cache. A frame that is not sound ends the job: a backup of damage would be found out too late.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import xxhash

from goqueue.backup.manifest import LogFile
from goqueue.backup.store import Store, Vault, open_store
from goqueue.backup.whole import EndedEarly, join_durably, make_private_folder
from goqueue.codec.frame import FrameDamage
from goqueue.codec.frame_walk import walk_frames

_NS_PER_MS = 1_000_000
# Frames are hashed together up to this size: few calls for small ones, and no more than a cache holds.
_HASH_STEP_BYTES = 256 * 1024


class Damaged(Exception):
    """A file is not what it should be; says which, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A file to copy: up to `limit` bytes, which is where the log ended at the instant of the backup."""

    root: str
    path: str
    limit: int
    modified_ns: int
    is_segment: bool
    # The one that its log is written to.
    is_newest: bool = False
    # Bytes before this are in an earlier backup.
    start: int = 0


@dataclass(frozen=True, slots=True)
class Extent:
    """What the frames of a segment add up to."""

    frames: int = 0
    first_offset: int = -1
    end_offset: int = -1
    first_ms: int = -1
    last_ms: int = -1
    # Bytes up to the end of the last frame that was counted, and their hash.
    size: int = 0
    hash: str = ""
    # Where the last of them begins.
    last_frame: int = 0


def copy_file(piece: Piece, target: str | Vault) -> LogFile:
    """Copy one file into the store, unless its bytes are there; what it consists of."""
    source = Path(piece.root) / piece.path
    with _mapped(source, piece.limit, piece.start) as data:
        extent = measure(data, piece.path, is_newest=piece.is_newest) if piece.is_segment else _plain(data)
        store = open_store(target)
        if not store.has_object(extent.hash, extent.size):
            _copied(lambda: store.put_object(extent.hash, source, extent.size, piece.start))
        tail = data[extent.last_frame : extent.size]
        tail_hash = hash_of(tail)
    return LogFile(
        path=piece.path,
        size=extent.size,
        hash=extent.hash,
        kind="segment" if piece.is_segment else "checkpoint",
        modified_ns=piece.modified_ns,
        frames=extent.frames,
        first_offset=extent.first_offset,
        end_offset=extent.end_offset,
        first_ms=extent.first_ms,
        last_ms=extent.last_ms,
        start=piece.start,
        tail_size=len(tail),
        tail_hash=tail_hash,
    )


def tail_of(piece: Piece, part: LogFile) -> str:
    """The hash of the bytes that stand now where the last frame of a stored part stood."""
    with (Path(piece.root) / piece.path).open("rb") as file:
        file.seek(part.end - part.tail_size)
        return hash_of(memoryview(file.read(part.tail_size)))


def verify_file(file: LogFile, target: str | Vault) -> str | None:
    """Compute everything again from the stored bytes; what differs, or None."""
    try:
        with open_store(target).local_object(file.hash) as path:
            return _problem_of(file, path)
    except FileNotFoundError:
        return f"{file.path}: its object {file.hash} is missing"


def read_ahead(file: LogFile, target: str | Vault) -> None:
    """Have the disk begin with a stored file that is verified next."""
    near = open_store(target).near_path(file.hash)
    if near is not None:
        with suppress(FileNotFoundError), near.open("rb") as opened:
            _want(opened.fileno(), 0, file.size)


def restore_file(parts: Sequence[LogFile], target: str | Vault, root: str, until_ms: int | None) -> list[LogFile]:
    """Lay the parts of one file back, as far as it had been written at `until_ms`; what was laid."""
    store = open_store(target)
    laid: list[LogFile] = []

    def contents() -> Iterator[tuple[Path, int]]:
        for part in parts:
            with _stored(store, part) as source:
                wanted = _until(source, part, until_ms)
                if wanted is not None:
                    laid.append(wanted)
                    yield source, wanted.size
            if wanted is None or wanted.size < part.size:
                return

    path = Path(root) / parts[0].path
    make_private_folder(path.parent)
    _copied(lambda: join_durably(contents(), path))
    if not laid:
        # It had not been begun at that time.
        path.unlink()
    return laid


@contextmanager
def _stored(store: Store, file: LogFile) -> Iterator[Path]:
    """A stored file, checked."""
    try:
        with store.local_object(file.hash) as source:
            problem = _problem_of(file, source)
            if problem is not None:
                raise Damaged(problem)
            yield source
    except FileNotFoundError:
        raise Damaged(f"{file.path}: its object {file.hash} is missing") from None


def _until(source: Path, file: LogFile, until_ms: int | None) -> LogFile | None:
    """A part as far as it had been written at a time; None if it had not been begun."""
    if file.kind != "segment" or until_ms is None or file.last_ms <= until_ms:
        return file
    with _mapped(source, file.size) as data:
        extent = measure(data, file.path, until_ms=until_ms)
    if not extent.size:
        return None
    return LogFile(file.path, extent.size, "", file.kind, 0, extent.frames, extent.first_offset, extent.end_offset)


def _problem_of(file: LogFile, path: Path) -> str | None:
    try:
        with _mapped(path, file.size) as data:
            if path.stat().st_size != file.size:
                return f"{file.path}: {path.stat().st_size} bytes instead of {file.size}"
            extent = measure(data, file.path) if file.kind == "segment" else _plain(data)
            if (extent.frames, extent.end_offset) != (file.frames, file.end_offset):
                return f"{file.path}: {extent.frames} frames instead of {file.frames}"
            if extent.hash != file.hash:
                return f"{file.path}: its bytes have another hash"
    except Damaged as damage:
        return str(damage)
    return None


def _copied(copy: Callable[[], None]) -> None:
    """A file that became shorter while it was copied is damage, told in the job's words."""
    try:
        copy()
    except EndedEarly as error:
        raise Damaged(str(error)) from error


def measure(data: memoryview, where: str, *, until_ms: int | None = None, is_newest: bool = False) -> Extent:
    """Walk a segment's frames, each checked; those after `until_ms` are not counted."""
    frames, first_offset, end_offset, first_ms, last_ms, size, hashed, last_frame = 0, -1, -1, -1, -1, 0, 0, 0
    hash_ = xxhash.xxh3_128()
    try:
        for frame in walk_frames(data):
            at_ms = frame.header.timestamp_ns // _NS_PER_MS
            if until_ms is not None and at_ms > until_ms:
                break
            if not frames:
                first_offset, first_ms = frame.header.offset, at_ms
            frames += 1
            end_offset, last_ms = frame.batch.last_offset + 1, at_ms
            last_frame, size = size, frame.end
            if size - hashed >= _HASH_STEP_BYTES:
                hash_.update(data[hashed:size])
                hashed = size
    except FrameDamage as damage:
        # The last write of a broker that was killed: nobody was promised it, and a start cuts it off too.
        if not (damage.is_short and is_newest):
            raise Damaged(f"{where}: the frame at byte {damage.position} is damaged: {damage.reason}") from damage
    hash_.update(data[hashed:size])
    return Extent(frames, first_offset, end_offset, first_ms, last_ms, size, hash_.hexdigest(), last_frame)


def hash_of(data: memoryview) -> str:
    """128 bits that tell one file from another; damage is found by them, malice is not."""
    return xxhash.xxh3_128(data).hexdigest()


def _plain(data: memoryview) -> Extent:
    """A file without frames."""
    return Extent(size=len(data), hash=hash_of(data))


@contextmanager
def _mapped(path: Path, limit: int, start: int = 0) -> Iterator[memoryview]:
    """The bytes of a file from `start` to `limit`, without a copy."""
    with path.open("rb") as file:
        size = min(os.fstat(file.fileno()).st_size, limit)
        if size <= start:
            yield memoryview(b"")
            return
        _want(file.fileno(), start, size)
        mapped = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        # Not closed by hand: an error on its way out still holds views of it, and the last one ends it.
        yield memoryview(mapped)[start:]


def _want(descriptor: int, start: int, end: int) -> None:
    """Have the system read a part of a file at once: page by page, when touched, a disk gives a third of its speed."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_WILLNEED)
