"""Files and folders that are there whole or not at all, whatever is killed meanwhile.

What is being made has another name, beside the one it will have. A rename makes it appear; what
was killed before that is recognised by its name and swept by whoever comes next.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from goqueue.errors import InvalidRequest

# The modes of a broker's data directory. A backup holds the same messages, and others must not read them there either.
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_COPY_BYTES = 1024 * 1024


class EndedEarly(Exception):
    """A file is shorter than it was said to be."""


@contextmanager
def appearing(target: Path, doing: str) -> Iterator[Path]:
    """A folder to fill, which becomes `target` once all is in it; after an error nothing is left of it."""
    _sweep(target, doing)
    fresh = target.with_name(f"{target.name}.{doing}-{os.getpid()}")
    make_private_folder(fresh)
    try:
        yield fresh
        if target.exists():
            target.rmdir()
        fresh.rename(target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def refuse_filled(folder: Path, field: str, why: str) -> None:
    """Raise unless the folder is empty or not there."""
    if folder.is_file():
        raise InvalidRequest(f"{folder} is a file: name a folder", field=field)
    if folder.exists() and any(folder.iterdir()):
        raise InvalidRequest(f"{folder} is not empty: {why}", field=field)


@contextmanager
def only_one(folder: Path, doing: str) -> Iterator[None]:
    """Hold the folder against others who do the same; whoever is killed lets go of it."""
    make_private_folder(folder)
    with open_private(folder / f".{doing}") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest(f"another {doing} to {folder} is running: wait for it to end") from None
        yield


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    fresh = fresh_name(path)
    with open_private(fresh) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def copy_durably(source: Path, target: Path, size: int, start: int = 0) -> None:
    """Copy `size` bytes of a file inside the kernel, to a name that is taken only when all is there."""
    join_durably([(source, size)], target, start)


def join_durably(sources: Iterable[tuple[Path, int]], target: Path, start: int = 0) -> None:
    """Copy bytes of files, each from `start` on, behind each other into one file that appears when all is there."""
    fresh = fresh_name(target)
    with open_private(fresh) as writer:
        for source, size in sources:
            with source.open("rb", buffering=0) as reader:
                reader.seek(start)
                copied = 0
                while copied < size:
                    step = _copy_some(reader.fileno(), writer.fileno(), size - copied)
                    if not step:
                        raise EndedEarly(f"{source} ended at byte {start + copied} instead of {start + size}")
                    copied += step
        os.fsync(writer.fileno())
    fresh.replace(target)
    sync_folder(target.parent)


def _copy_some(reader: int, writer: int, size: int) -> int:
    try:
        return os.copy_file_range(reader, writer, size)
    except OSError as error:
        # Between two file systems some kernels cannot.
        if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
            raise
    return os.write(writer, os.read(reader, min(size, _COPY_BYTES)))


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, that only its owner and group can list."""
    if folder.is_dir():
        return
    make_private_folder(folder.parent)
    folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing, emptied, that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    return os.fdopen(descriptor, "wb")


def fresh_name(path: Path) -> Path:
    """The name of a file that is being written, by this thread and no other."""
    return path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")


def sweep_fresh(folder: Path) -> None:
    """Remove files that were being written by processes that are gone; the caller knows that no other writes."""
    for left in folder.rglob("*.new"):
        left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sweep(target: Path, doing: str) -> None:
    prefix = f"{target.name}.{doing}-"
    for left in target.parent.glob(f"{prefix}*") if target.parent.exists() else ():
        pid = left.name.removeprefix(prefix)
        if pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
