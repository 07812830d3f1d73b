"""What a running pipeline leaves beside its checkpoints, so that other commands can see and stop it.

That it runs is told by a lock and not by the number of its process: whoever is killed lets go of
a lock, while the number may belong to somebody else by then, as it does in a container that is started again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.running.state import Held, state_at

STARTING, RUNNING, STOPPED, FAILED, CRASHED = "starting", "running", "stopped", "failed", "crashed"
_STATUS, _STOP, _LOCK = "run.json", "stop", "run.lock"


class RunFiles:
    """`run.lock`: held by the run, with its process. `run.json`: how it fares. `stop`: somebody wants it to end."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._state = state_at(pipeline.checkpoint_path)
        self._name = pipeline.name
        # What was written last, and when; and when somebody looked for a word to stop.
        self._written: tuple[str, float] = ("", 0.0)
        self._looked = 0.0

    @contextmanager
    def held(self) -> Iterator[None]:
        """The time of a run, unless another has not ended; nobody has asked it to stop yet."""
        try:
            with self._state.held(_LOCK):
                self._state.remove(_STOP)
                # What stands there is of the run before, which may have crashed.
                self.write({"name": self._name, "state": STARTING, "sinks": []})
                yield
        except Held as other:
            raise _refusal(other.holder) from None

    def refuse_second(self) -> None:
        """Raise if a run has not ended."""
        holder = self._state.holder(_LOCK)
        if holder is not None:
            raise _refusal(holder)

    def write(self, status: Mapping[str, Any]) -> None:
        """Say how it fares, at once if that is another state, and otherwise as often as the place may be written."""
        known, when = self._written
        if status.get("state") == known and time.monotonic() - when < self._state.every_s:
            return
        self._written = (str(status.get("state")), time.monotonic())
        self._state.write(_STATUS, json.dumps({"pid": os.getpid(), **status}, indent=2))

    def read(self) -> dict[str, Any] | None:
        """What the last run said, with whether it still runs; None if there was none.

        A run that was killed could not say so: it is `crashed` if it has let go of its lock before it ended.
        """
        text = self._state.read(_STATUS)
        try:
            status: dict[str, Any] = json.loads(text or "")
        except ValueError:
            return None
        if status.get("state") not in (STARTING, RUNNING):
            return {**status, "running": False}
        if self._state.holder(_LOCK) is not None:
            return {**status, "running": True}
        sinks = [{**sink, "active": False} for sink in status.get("sinks", ())]
        return {**status, "state": CRASHED, "sinks": sinks, "running": False}

    def ask_to_stop(self) -> None:
        """Leave word that the run shall end."""
        self._state.write(_STOP, "")

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether somebody left word."""
        if time.monotonic() - self._looked < self._state.every_s:
            return False
        self._looked = time.monotonic()
        return self._state.read(_STOP) is not None


def _refusal(holder: str) -> InvalidRequest:
    return InvalidRequest(f"it runs already, as process {holder}: end that one with `goqueue pipeline stop` first")
