"""Starting other people's servers: a process, a port that answers, what it costs, and its end."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

CACHE = Path.home() / ".cache" / "goqueue-peers"
START_SECONDS_MAX = 90.0
INSTALL = "make peers-install"


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers. `start_seconds` went by from its start to its first answer.

    `prepare_seconds` were needed before, to make its empty directory one that it starts with.
    """

    address: str
    pid: int
    start_seconds: float
    home: Path
    prepare_seconds: float = 0.0

    def cpu_seconds(self) -> float:
        """Processor time of the process and all its children so far, also of those that have ended."""
        times = [one.cpu_times() for one in self._processes()]
        return sum(one.user + one.system + one.children_user + one.children_system for one in times)

    def rss_mib(self) -> float:
        """Memory in RAM, children included."""
        return sum(float(one.memory_info().rss) for one in self._processes()) / 2**20

    def holds(self, topics: str) -> bool:
        """Whether files or folders named like this are still on its disk."""
        try:
            return any(True for _ in self.home.rglob(topics))
        except FileNotFoundError:
            # They are going right now.
            return True

    def _processes(self) -> list[psutil.Process]:
        parent = psutil.Process(self.pid)
        return [parent, *parent.children(recursive=True)]


class Peer(Protocol):
    """One broker, as the harness sees it. `load` names the client script beside this file."""

    name: str
    load: str
    # Messages of 100 B that the client is good for in a second, about: slow ones get fewer (`scale.messages_for`).
    pace: int
    # What "durable" means here, for the report.
    durability: str
    # Which workloads it offers beyond produce and consume: "latency", "durable", "queue", ...
    offers: frozenset[str]

    def missing(self) -> str | None:
        """What is not installed and how to get it, or None."""
        ...

    def version(self) -> str:
        """Of the server."""
        ...

    def start(self, home: Path, *, durable: bool) -> Any:
        """A context manager that gives the running `Server`."""
        ...


@contextmanager
def running(
    command: Sequence[str],
    home: Path,
    address: str,
    ping: Callable[[str], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start a process in `home`, wait for its first answer, and end it and its children afterwards."""
    log_path = home / "server.log"
    started = time.monotonic()
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            list(command), cwd=home, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        while not _answers(ping, address):
            if process.poll() is not None or time.monotonic() - started > START_SECONDS_MAX:
                tail = log_path.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{command[0]} does not answer at {address}:\n{tail}")
            time.sleep(0.005)
        yield Server(address, process.pid, time.monotonic() - started, home)
    finally:
        _end(process)


def free_port() -> int:
    """A port of the loopback interface that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def program(name: str) -> str | None:
    """Where a program is: in our cache, or installed."""
    cached = CACHE / "bin" / name
    return (
        str(cached) if cached.exists() else shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    )


def exchange(address: str, request: bytes, answer: bytes) -> bool:
    """Whether the server sends `answer` for `request`."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(request)
        return answer in connection.recv(4096)


def _answers(ping: Callable[[str], bool], address: str) -> bool:
    with suppress(OSError, EOFError):
        return ping(address)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    family = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    for one in family:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.kill()
    process.wait()
