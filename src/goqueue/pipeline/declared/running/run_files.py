"""What a running pipeline leaves in its checkpoint folder, so that other commands can see and stop it.

That it runs is told by a lock and not by the number of its process: whoever is killed lets go of
a lock, while the number may belong to somebody else by then, as it does in a container that is started again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.spec import Pipeline

STARTING, RUNNING, STOPPED, FAILED, CRASHED = "starting", "running", "stopped", "failed", "crashed"
_STATUS, _STOP, _LOCK = "run.json", "stop", "run.lock"
# Whoever looks at the lock has it for a moment.
_LOOKS_MAX, _LOOK_S = 20, 0.05


class RunFiles:
    """`run.lock`: held by the run, with its process. `run.json`: how it fares. `stop`: somebody wants it to end."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._folder = Path(pipeline.checkpoint_path)
        self._name = pipeline.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """The time of a run, unless another has not ended; nobody has asked it to stop yet."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("a+") as lock:
            if not _locked(lock):
                raise self._refusal()
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            (self._folder / _STOP).unlink(missing_ok=True)
            # What stands there is of the run before, which may have crashed.
            self.write({"name": self._name, "state": STARTING, "sinks": []})
            yield

    def refuse_second(self) -> None:
        """Raise if a run has not ended."""
        if self._is_held():
            raise self._refusal()

    def write(self, status: Mapping[str, Any]) -> None:
        """Say how it fares. Whoever reads sees the old state or the new one."""
        fresh = self._folder / f"{_STATUS}.new"
        fresh.write_text(json.dumps({"pid": os.getpid(), **status}, indent=2))
        fresh.replace(self._folder / _STATUS)

    def read(self) -> dict[str, Any] | None:
        """What the last run said, with whether it still runs; None if there was none.

        A run that was killed could not say so: it is `crashed` if it has let go of its lock before it ended.
        """
        try:
            status: dict[str, Any] = json.loads((self._folder / _STATUS).read_text())
        except (OSError, ValueError):
            return None
        if status.get("state") not in (STARTING, RUNNING):
            return {**status, "running": False}
        if self._is_held():
            return {**status, "running": True}
        sinks = [{**sink, "active": False} for sink in status.get("sinks", ())]
        return {**status, "state": CRASHED, "sinks": sinks, "running": False}

    def ask_to_stop(self) -> None:
        """Leave word that the run shall end."""
        (self._folder / _STOP).touch()

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether somebody left word."""
        return (self._folder / _STOP).exists()

    def _is_held(self) -> bool:
        try:
            with (self._folder / _LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def _refusal(self) -> InvalidRequest:
        pid = (self._folder / _LOCK).read_text()
        return InvalidRequest(f"it runs already, as process {pid}: end that one with `goqueue pipeline stop` first")


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
