"""The lines that `goqueue produce` sends: read from a file or from standard input, one message each."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_FIELDS = frozenset(
    {
        "key",
        "value",
        "headers",
        "partition",
        "timestamp",
        "priority",
        "deduplication_id",
        "delay",
        "deliverAt",
        "encoding",
    }
)
# As a file: standard input, read as a file is.
DASH = Path("-")
_READ_BYTES = 256 * 1024


@dataclass(slots=True)
class Line:
    """One message to send, and the line it came from."""

    number: int
    value: bytes | str | None
    key: bytes | str | None = None
    headers: dict[str, bytes | str | None] = field(default_factory=dict)
    partition: int | None = None
    timestamp_ms: int | None = None
    priority: int | str | None = None
    deduplication_id: str | None = None
    delay: str | None = None
    deliver_at: str | None = None


@dataclass(slots=True)
class BadLine:
    """A line that is no message, and why."""

    number: int
    problem: Exception


async def lines_of(file: Path | None, extra: dict[str, Any]) -> AsyncIterator[tuple[Line | BadLine, int]]:
    """The messages to send. Reading waits in a thread, so that what was typed goes out while more is awaited."""
    source: IO[bytes] = sys.stdin.buffer if file in (None, DASH) else await asyncio.to_thread(file.open, "rb")
    number, rest = 0, b""
    try:
        while chunk := await _read_some(source):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                number += 1
                if (parsed := _line(number, line, extra, from_file=file is not None)) is not None:
                    yield parsed, len(line) + 1
        if rest and (parsed := _line(number + 1, rest, extra, from_file=file is not None)) is not None:
            yield parsed, len(rest)
    finally:
        if source is not sys.stdin.buffer:
            source.close()


async def _read_some(source: IO[bytes]) -> bytes:
    """What is there, in a thread of its own: one that waits for somebody to type must not hold up the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def tell(chunk: bytes, problem: Exception | None) -> None:
        if not done.done():
            done.set_result(chunk) if problem is None else done.set_exception(problem)

    def read() -> None:
        chunk, problem = b"", None
        try:
            # Below the buffer: its lock would be held when the program ends.
            chunk = os.read(source.fileno(), _READ_BYTES)
        except OSError as error:
            problem = error
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, chunk, problem)

    threading.Thread(target=read, name="goqueue-stdin", daemon=True).start()
    return await done


def _line(number: int, line: bytes, extra: dict[str, Any], *, from_file: bool) -> Line | BadLine | None:
    try:
        text = line.rstrip(b"\r").decode()
    except UnicodeDecodeError:
        # Bytes that are not text are a value like any other.
        return Line(number, line, **extra)
    if not from_file:
        return Line(number, text, **extra)
    stripped = text.strip()
    return _parse(number, stripped, extra) if stripped and not stripped.startswith("#") else None


def _parse(number: int, text: str, extra: dict[str, Any]) -> Line | BadLine:
    """An object with a `value` is a message; any other line is a value itself."""
    try:
        row = json.loads(text)
    except ValueError:
        return Line(number, text, **extra)
    if not isinstance(row, dict) or "value" not in row:
        return Line(number, text, **extra)
    if unknown := row.keys() - _FIELDS:
        return BadLine(number, ValueError(f"unknown field {min(unknown)!r}; known: {', '.join(sorted(_FIELDS))}"))
    value = row["value"]
    value = value if value is None or isinstance(value, str) else json.dumps(value)
    key, headers = row.get("key"), row.get("headers")
    if row.get("encoding") is not None:
        try:
            value, key, headers = _decoded(row["encoding"], value, key, headers)
        except (ValueError, TypeError, AttributeError) as problem:
            return BadLine(number, ValueError(f"encoding={row['encoding']!r}: {problem}"))
    return Line(
        number,
        value,
        key if "key" in row else extra["key"],
        headers or extra["headers"],
        row.get("partition", extra["partition"]),
        row.get("timestamp"),
        row.get("priority", extra["priority"]),
        row.get("deduplication_id"),
        row.get("delay", extra["delay"]),
        row.get("deliverAt", extra["deliver_at"]),
    )


def _decoded(encoding: object, value: str | None, key: str | None, headers: dict[str, Any] | None) -> tuple[Any, ...]:
    """Value, key and headers as bytes."""
    if encoding != "base64":
        raise ValueError("not an encoding: give base64, or leave it out")

    def read(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text, validate=True)

    return read(value), read(key), {name: read(one) for name, one in (headers or {}).items()}
