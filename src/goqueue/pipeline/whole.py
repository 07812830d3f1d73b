"""Files and folders that are there whole or not at all, whatever is killed meanwhile.

What is being made has another name, beside the one it will have. A rename makes it appear; what
was killed before that is recognised by its name and swept by whoever comes next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goqueue.errors import InvalidRequest


@contextmanager
def appearing(target: Path, doing: str) -> Iterator[Path]:
    """A folder to fill, which becomes `target` once all is in it; after an error nothing is left of it."""
    _sweep(target, doing)
    fresh = target.with_name(f"{target.name}.{doing}-{os.getpid()}")
    fresh.mkdir(parents=True)
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
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{doing}").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest(f"another {doing} to {folder} is running: wait for it to end") from None
        yield


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    fresh = fresh_name(path)
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def fresh_name(path: Path) -> Path:
    """The name of a file that is being written."""
    return path.with_name(f"{path.name}.{os.getpid()}.new")


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
