"""What is wrong with a pipeline: every problem at once, each with its place and line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, where it is, and how to mend it."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.path) if part)
        tail = f" ({self.hint})" if self.hint else ""
        return f"{where}: {self.message}{tail}" if where else f"{self.message}{tail}"


class PipelineInvalid(ConfigError):
    """The pipeline cannot run as it is written."""

    def __init__(self, found: Sequence[Problem]) -> None:
        super().__init__([str(one) for one in found])
        self.found = tuple(found)
