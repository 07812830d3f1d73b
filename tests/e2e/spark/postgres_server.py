"""A PostgreSQL server of its own for tests, from the system's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _program(name: str) -> str:
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *map(Path, os.get_exec_path())]
    found = next((str(place / name) for place in places if (place / name).exists()), None)
    if found is None:
        pytest.skip(f"needs PostgreSQL's {name}: apt install postgresql")
    return found


def _user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    known = {one.pw_name for one in pwd.getpwall()}
    return ["runuser", "-u", "postgres" if "postgres" in known else "nobody", "--"]


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a database of a server that ends with the block."""
    pytest.importorskip("psycopg", reason="needs goqueue[postgres]")
    initdb, postgres, user = _program("initdb"), _program("postgres"), _user()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(tempfile.mkdtemp(prefix="goqueue-postgres-"))
    try:
        if user:
            shutil.chown(home, user[2])
        data = home / "data"
        subprocess.run(
            [*user, initdb, "-D", data, "-U", "tests", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=home,
        )
        server = subprocess.Popen(
            [*user, postgres, "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", str(home), "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home,
        )
        try:
            url = f"postgresql://tests@127.0.0.1:{port}/postgres"
            _wait(url, server)
            yield url
        finally:
            # `runuser` hands the signal on to the server.
            server.terminate()
            server.wait(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            assert server.poll() is None, "PostgreSQL did not start"
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.1)
        else:
            return
