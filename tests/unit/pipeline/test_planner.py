"""The planner of a stream connects before it loads anything: Spark waits ten seconds for that, however busy it is."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.spark import planner

_SECRET = b"between us"
# It waits for a word on its standard input before it asks for its connection, as one that is still loading.
_MODULE = """
import os, sys
sys.stdin.readline()
from pyspark.worker_util import get_sock_file_to_executor, write_int
with get_sock_file_to_executor(timeout=None) as stream:
    write_int(len(sys.argv), stream)
"""


@contextmanager
def _started(folder: Path, stderr: int | None = None, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "slow_planner.py").write_text(_MODULE)
    process = subprocess.Popen(
        [sys.executable, "-P", planner.__file__, "slow_planner"],
        stdin=subprocess.PIPE,
        stderr=stderr,
        cwd=folder,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


def test_it_connects_to_a_socket_of_the_file_system_before_its_module_is_loaded(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        path = str(tmp_path / "s")
        listening.bind(path)
        listening.listen()
        listening.settimeout(60)
        with _started(tmp_path, PYTHON_WORKER_FACTORY_SOCK_PATH=path) as process:
            connection, _ = listening.accept()
            _go_on(process)
            with connection, connection.makefile("rb") as stream:
                assert struct.unpack(">ii", stream.read(8)) == (process.pid, 1)


def test_it_ends_without_a_word_once_spark_has_hung_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        path = str(tmp_path / "s")
        listening.bind(path)
        listening.listen()
        listening.settimeout(60)
        with _started(tmp_path, stderr=subprocess.PIPE, PYTHON_WORKER_FACTORY_SOCK_PATH=path) as process:
            listening.accept()[0].close()
            _, told = process.communicate(b"go\n", timeout=60)

    assert (process.returncode, told) == (0, b"")


@pytest.mark.parametrize(("answer", "is_taken"), [(b"ok", True), (b"err", False)])
def test_it_says_the_secret_to_a_port_before_its_module_is_loaded(
    tmp_path: Path, answer: bytes, *, is_taken: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        port = str(listening.getsockname()[1])
        environment = {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": _SECRET.decode()}
        with _started(tmp_path, **environment) as process:
            connection, _ = listening.accept()
            with connection, connection.makefile("rwb") as stream:
                assert stream.read(4 + len(_SECRET)) == struct.pack(">i", len(_SECRET)) + _SECRET
                stream.write(struct.pack(">i", len(answer)) + answer)
                stream.flush()
                _go_on(process) if is_taken else None
                expected = struct.pack(">ii", process.pid, 1) if is_taken else b""
                assert stream.read(8) == expected
