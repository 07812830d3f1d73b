"""The ready file: tells scripts and tests that the broker serves, and where."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goqueue.errors import ConfigError
from goqueue.node.node import Running


def check_ready_file(path: str | None) -> None:
    """Raise `ConfigError` if the file could not be written; touches nothing."""
    if path is None:
        return
    target = Path(path)
    if target.is_dir() or not os.access(target.absolute().parent, os.W_OK | os.X_OK):
        raise ConfigError([f"--ready-file: {path} cannot be written"])


@contextmanager
def ready_file(path: str | None, running: Running) -> Iterator[None]:
    """Write the file, whole at once, and remove it at the end."""
    if path is None:
        yield
        return
    target = Path(path)
    draft = target.with_name(target.name + ".tmp")
    content: dict[str, object] = {
        "pid": os.getpid(),
        "kafka": str(running.kafka),
        "http": str(running.http),
        "listeners": {name: str(address) for name, address in running.listeners.items()},
    }
    if running.grpc is not None:
        content["grpc"] = str(running.grpc)
    draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
    draft.replace(target)
    try:
        yield
    finally:
        target.unlink(missing_ok=True)
