"""JSON lines: to files that are rotated by size, or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from goqueue.tracing.spans import Span

_encode = msgspec.json.Encoder().encode


def span_json(span: Span) -> dict[str, Any]:
    """A span as exporters write it."""
    return {
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "event": span.event,
        "time": time_text(span.start_ms),
        "status": "error" if span.failed else "ok",
        "attributes": span.attributes,
    }


def time_text(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class FileExporter:
    """Appends to `traces-{date}-{seq}.json`; the next number, or the next day, begins another file."""

    name = "file"

    def __init__(
        self, directory: str, *, bytes_max: int, count_max: int, today: Callable[[], str] | None = None
    ) -> None:
        self._directory = Path(directory)
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._today = today or (lambda: datetime.now(UTC).strftime("%Y-%m-%d"))
        self._file: IO[bytes] | None = None
        self._date = ""
        self._size = 0

    def export(self, spans: Sequence[Span]) -> None:
        """Append them."""
        for span in spans:
            line = _encode(span_json(span)) + b"\n"
            self._open_for(len(line)).write(line)
            self._size += len(line)
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_for(self, needs: int) -> IO[bytes]:
        date = self._today()
        if self._file is not None and date == self._date and self._size + needs <= self._bytes_max:
            return self._file
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        numbers = [int(path.stem.rpartition("-")[2]) for path in self._files(f"traces-{date}-*.json")]
        number = max(numbers, default=1)
        path = self._path(date, number)
        if path.exists() and path.stat().st_size + needs > self._bytes_max:
            path = self._path(date, number + 1)
        self._date = date
        self._file = path.open("ab")
        self._size = path.stat().st_size
        for old in self._files("traces-*.json")[: -self._count_max]:
            old.unlink(missing_ok=True)
        return self._file

    def _files(self, pattern: str) -> list[Path]:
        found = [path for path in self._directory.glob(pattern) if path.stem.rpartition("-")[2].isdecimal()]
        return sorted(found, key=lambda path: (path.stem.rpartition("-")[0], int(path.stem.rpartition("-")[2])))

    def _path(self, date: str, number: int) -> Path:
        return self._directory / f"traces-{date}-{number:03d}.json"


class StdoutExporter:
    """Writes one object per line, or indented ones."""

    name = "stdout"

    def __init__(self, *, pretty: bool = False, writer: IO[str] | None = None) -> None:
        self._pretty = pretty
        self._writer = writer

    def export(self, spans: Sequence[Span]) -> None:
        """Write them."""
        writer = self._writer or sys.stdout
        for span in spans:
            text = _encode(span_json(span))
            writer.write((msgspec.json.format(text, indent=2) if self._pretty else text).decode() + "\n")
        writer.flush()

    def close(self) -> None:
        """Nothing to let go of."""
