"""The table that is shown while a pipeline runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table


class Watch:
    """A table that is drawn anew in place on a terminal; elsewhere, a line per batch."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False)
        self._live = None if quiet or not sys.stderr.isatty() else Live(console=self._console, refresh_per_second=2)
        self._batches: dict[str, int] = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, sinks: Sequence[dict[str, Any]]) -> None:
        """Show how the sinks fare."""
        if self._live is not None:
            self._live.update(_table(sinks))
        elif not self._quiet:
            for sink in sinks:
                if sink["batch"] > self._batches.get(sink["sink"], -1):
                    self._batches[sink["sink"]] = sink["batch"]
                    self._console.print(_line(sink))


def _table(sinks: Sequence[dict[str, Any]]) -> Table:
    table = Table("SINK", "BATCH", "ROWS WRITTEN", "ROWS/S", "BATCH MS", "LAG", "RESTARTS", "LAST ERROR", box=None)
    for column in table.columns[1:5]:
        column.justify = "right"
    for sink in sinks:
        cells = [sink["batch"], sink["rows_written"], sink["rows_per_second"], sink["batch_ms"]]
        table.add_row(sink["sink"], *map(str, cells), _lag(sink), str(sink["restarts"]), sink["last_error"] or "-")
    return table


def _line(sink: dict[str, Any]) -> str:
    return (
        f"{sink['sink']}: batch {sink['batch']}, {sink['rows_written']} rows written, "
        f"{sink['rows_per_second']} rows/s, {sink['batch_ms']} ms, lag {_lag(sink)}"
    )


def _lag(sink: dict[str, Any]) -> str:
    return ", ".join(f"{topic} {messages}" for topic, messages in sink["lag"].items()) or "-"
