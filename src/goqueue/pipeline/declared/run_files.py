"""What a running pipeline leaves in its checkpoint folder, so that other commands can see and stop it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.spec import Pipeline
from goqueue.pipeline.whole import is_alive

_STATUS, _STOP = "run.json", "stop"


class RunFiles:
    """`run.json`: who runs it and how it fares. `stop`: somebody wants it to end."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._folder = Path(pipeline.checkpoint_path)

    def begin(self) -> None:
        """A run begins, unless another has not ended; nobody has asked it to stop yet."""
        other = self.read()
        if other is not None and other["running"] and other["pid"] != os.getpid():
            raise InvalidRequest(
                f"it runs already, as process {other['pid']}: end that one with `goqueue pipeline stop` first"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _STOP).unlink(missing_ok=True)

    def write(self, status: Mapping[str, Any]) -> None:
        """Say how it fares. Whoever reads sees the old state or the new one."""
        fresh = self._folder / f"{_STATUS}.new"
        fresh.write_text(json.dumps({"pid": os.getpid(), **status}, indent=2))
        fresh.replace(self._folder / _STATUS)

    def read(self) -> dict[str, Any] | None:
        """What the last run said, with whether it still runs; None if there was none."""
        try:
            status: dict[str, Any] = json.loads((self._folder / _STATUS).read_text())
        except (OSError, ValueError):
            return None
        return {**status, "running": status.get("state") == "running" and is_alive(int(status["pid"]))}

    def ask_to_stop(self) -> None:
        """Leave word that the run shall end."""
        (self._folder / _STOP).touch()

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether somebody left word."""
        return (self._folder / _STOP).exists()
