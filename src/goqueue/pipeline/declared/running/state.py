"""The folder of a pipeline's own state, beside the checkpoints of Spark: on this machine or in a store.

Small files that are replaced as a whole, a few that grow, and locks. On this machine a lock is one of the system: it
ends with its process. A store has none; there it is an object that its holder renews, and that counts until it has not
been renewed for a minute.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from goqueue.errors import GoQueueError
from goqueue.pipeline.paths import is_store

_LOG = logging.getLogger("goqueue.pipeline")
# Whoever looks at a lock of the system has it for a moment.
_LOOKS_MAX, _LOOK_S = 20, 0.05
_RENEW_S, _EXPIRED_S = 10.0, 60.0
# How long a store may take until all see who wrote last.
_SETTLED_S = 1.0


class Held(GoQueueError):
    """Somebody else holds a lock; `holder` is what they wrote into it."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"held by process {holder}")
        self.holder = holder


class State(Protocol):
    """One folder."""

    # How often it may be looked at and written to without need.
    every_s: float
    # What names it, the same from wherever it is seen.
    address: str

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        ...

    def has_files(self, folder: str) -> bool:
        """Whether files lie in a folder; those that begin with a dot do not count."""
        ...

    def write(self, name: str, text: str) -> None:
        """Replace a file. Whoever reads it sees the old text or the new one."""
        ...

    def append(self, name: str, text: str) -> int:
        """Add to a file that nobody else adds to; returns its size."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        ...

    def held(self, name: str) -> Any:
        """The time in which nobody else holds this lock, as a context; raises `Held`."""
        ...

    def holder(self, name: str) -> str | None:
        """Who holds a lock now: the number of the process, and its machine if that may be another."""
        ...


def state_at(place: str) -> State:
    """The state in a folder or at an address."""
    return StoreState(place) if is_store(place) else LocalState(Path(place))


class LocalState:
    """A folder of this machine."""

    every_s = 0.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = str(folder.resolve())

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def has_files(self, folder: str) -> bool:
        """Whether files lie in a folder."""
        return any(not found.name.startswith(".") for found in (self._folder / folder).glob("*"))

    def write(self, name: str, text: str) -> None:
        """Replace a file by way of another."""
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)

    def append(self, name: str, text: str) -> int:
        """Add to a file; returns its size."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
            return file.tell()

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (self._folder / name).unlink(missing_ok=True)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """The time of a lock; raises `Held`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / name).open("a+") as lock:
            if not _locked(lock):
                lock.seek(0)
                raise Held(lock.read())
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def holder(self, name: str) -> str | None:
        """Who holds a lock now."""
        try:
            with (self._folder / name).open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return lock.read()
        except FileNotFoundError:
            pass
        return None


class StoreState:
    """A folder of a store."""

    every_s = 5.0

    def __init__(self, address: str) -> None:
        from goqueue.backup.addresses import open_files

        self.address = address
        self._files, self._root = open_files(address, "checkpoint")
        self._grown: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        try:
            self._files.invalidate_cache()
            return str(self._files.cat_file(f"{self._root}/{name}").decode())
        except FileNotFoundError:
            return None

    def has_files(self, folder: str) -> bool:
        """Whether files lie in a folder."""
        self._files.invalidate_cache()
        return any(
            not str(found).rpartition("/")[2].startswith(".") for found in self._files.find(f"{self._root}/{folder}")
        )

    def write(self, name: str, text: str) -> None:
        """Replace a file by way of another."""
        self._files.pipe_file(f"{self._root}/{name}", text.encode())

    def append(self, name: str, text: str) -> int:
        """Add to a file; returns its size."""
        # Objects do not grow: it is written anew, with what is known of it.
        if name not in self._grown:
            self._grown[name] = self.read(name) or ""
        self._grown[name] += text
        self.write(name, self._grown[name])
        return len(self._grown[name])

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        self._grown.pop(name, None)
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """The time of a lock; raises `Held`."""
        owner = uuid.uuid4().hex
        self._take(name, owner)
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(name, owner, ended), name="lock", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            if not self._is_of_another(name, owner):
                self.remove(name)

    def holder(self, name: str) -> str | None:
        """Who holds a lock now."""
        found = self._lock(name)
        if found is None or time.time() - found["renewed_s"] > _EXPIRED_S:
            return None
        return f"{found['pid']} on {found['host']}"

    def _take(self, name: str, owner: str) -> None:
        holder = self.holder(name)
        if holder is not None:
            raise Held(holder)
        self._write_lock(name, owner)
        # Of two that write at once the second has it; both look who that is.
        time.sleep(_SETTLED_S)
        found = self._lock(name)
        if found is None or found["owner"] != owner:
            raise Held(self.holder(name) or "that began at the same time")

    def _renew(self, name: str, owner: str, ended: threading.Event) -> None:
        while not ended.wait(_RENEW_S):
            try:
                if self._is_of_another(name, owner):
                    # As after a long stop of this process. Every sink takes each batch once, from whichever run.
                    _LOG.warning("the lock %s/%s was not renewed in time: another run has it", self.address, name)
                    return
                self._write_lock(name, owner)
            except OSError as error:
                _LOG.warning("the lock %s/%s cannot be renewed: %s", self.address, name, error)

    def _is_of_another(self, name: str, owner: str) -> bool:
        found = self._lock(name)
        return found is not None and found["owner"] != owner

    def _lock(self, name: str) -> dict[str, Any] | None:
        text = self.read(name)
        if text is None:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def _write_lock(self, name: str, owner: str) -> None:
        value = {"owner": owner, "pid": os.getpid(), "host": socket.gethostname(), "renewed_s": time.time()}
        self.write(name, json.dumps(value))


def _locked(lock: IO[str]) -> bool:
    """Take the lock, unless somebody keeps it."""
    for _ in range(_LOOKS_MAX):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
        else:
            return True
    return False
