"""The table that `goqueue worker` shows on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from goqueue.worker.progress import Progress


class WorkerTable:
    """Drawn anew in place on a terminal; elsewhere nothing is shown, and the logs tell."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False)
        self.is_shown = not quiet and sys.stderr.isatty()
        self._live = Live(console=self._console, refresh_per_second=2) if self.is_shown else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def stream(self) -> TextIO | None:
        """Where logs go so that they stand above the table; None: to standard error."""
        return sys.stderr if self.is_shown else None

    def show(self, progress: Progress, waiting: Mapping[str, int]) -> None:
        """Show how the tasks fare."""
        if self._live is not None:
            self._live.update(table_of(progress, waiting))


def table_of(progress: Progress, waiting: Mapping[str, int]) -> Table:
    """One row per task, and what waits in the queues as the title."""
    title = "  ".join(f"{queue}: {count} unfinished" for queue, count in waiting.items())
    table = Table("TASK", "RUNNING", "DONE", "RETRIED", "FAILED", "MEAN MS", "LAST ERROR", title=title, box=None)
    for column in table.columns[1:6]:
        column.justify = "right"
    table.columns[0].overflow = "fold"
    for name, counts in sorted(progress.tasks.items()):
        mean = f"{counts.ms / counts.done:.1f}" if counts.done else "-"
        numbers = (counts.running, counts.done, counts.retried, counts.failed)
        table.add_row(name, *map(str, numbers), mean, counts.last_error or "-")
    return table
