"""Who a client is to the broker: its name, its host and its process, shown in `goqueue group describe`."""

from __future__ import annotations

import os
import re
import socket
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

# What a client id may hold; anything else becomes a dash.
_UNUSUAL = re.compile(r"[^A-Za-z0-9._@-]+")
_CHARS_MAX = 64


@cache
def default_client_id() -> str:
    """The program's name and its host, or what GOQUEUE_CLIENT_ID says."""
    if given := os.environ.get("GOQUEUE_CLIENT_ID"):
        return given
    return named_client_id(_program(Path(sys.argv[0] if sys.argv else "")))


def named_client_id(name: str) -> str:
    """A client id for something on this host that has a name of its own, such as the app of a worker."""
    return _UNUSUAL.sub("-", f"{name}@{host()}")[:_CHARS_MAX]


def _program(path: Path) -> str:
    if path.stem == "__main__":
        # `python -m package` is known by the package.
        return path.parent.name or "python"
    return path.stem if path.stem not in {"", "-", "-c", "-m"} else "python"


@cache
def host() -> str:
    """The name of this machine."""
    return socket.gethostname() or "unknown-host"


def tags() -> dict[str, str]:
    """What else is worth knowing of a member: its process and the version of the client."""
    return {"host": host(), "pid": str(os.getpid()), "client": f"goqueue-python/{client_version()}"}


@cache
def client_version() -> str:
    """The version of this package."""
    try:
        return metadata.version("goqueue")
    except metadata.PackageNotFoundError:
        return "unknown"
