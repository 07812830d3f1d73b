"""What every batch did, kept beside the checkpoints: rows, times, lag, and how many rows broke which rule.

One line of JSON per batch. The newest are kept: a file that is full takes the place of the one before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.running.progress import BatchFacts
from goqueue.pipeline.declared.running.state import state_at

_FILE, _OLDER = "history.jsonl", "history.older.jsonl"
# About ten thousand batches.
FILE_BYTES_MAX = 4 * 1024 * 1024


class History:
    """Of one pipeline, over all of its runs."""

    def __init__(self, pipeline: Pipeline, bytes_max: int = FILE_BYTES_MAX) -> None:
        self._state = state_at(pipeline.checkpoint_path)
        self._bytes_max = bytes_max
        self._waiting: list[str] = []
        self._written = 0.0

    def note(self, sink: str, batches: Sequence[BatchFacts]) -> None:
        """Add batches of a sink."""
        self._waiting += [json.dumps({"sink": sink, **one.as_dict()}) for one in batches]
        if self._waiting and time.monotonic() - self._written >= self._state.every_s:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if not self._waiting:
            return
        size = self._state.append(_FILE, "".join(f"{line}\n" for line in self._waiting))
        self._waiting, self._written = [], time.monotonic()
        if size > self._bytes_max:
            self._state.write(_OLDER, self._state.read(_FILE) or "")
            self._state.remove(_FILE)

    def read(self, sink: str | None = None) -> list[dict[str, Any]]:
        """All that is kept, the oldest first. A batch that ran again after a kill is told once, as it was last."""
        found: list[dict[str, Any]] = []
        last: dict[str, int] = {}
        for row in self._rows():
            name = row["sink"]
            if sink is not None and name != sink:
                continue
            if name in last and found[last[name]]["batch"] == row["batch"]:
                found[last[name]] = row
                continue
            last[name] = len(found)
            found.append(row)
        return found

    def _rows(self) -> Iterator[dict[str, Any]]:
        for name in (_OLDER, _FILE):
            for line in (self._state.read(name) or "").splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    # Written halfway when the machine went down.
                    continue
