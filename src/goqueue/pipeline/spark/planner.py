"""Starts a planner of a streaming query: it connects to Spark first, and loads what it needs after that.

Spark waits ten seconds for a planner to connect, and no setting changes that. The planner's own module loads PySpark
before it connects, which takes longer than that on a busy machine, and then the query fails. Once the connection is
there, Spark waits without a limit.

This file is run by its path and not as a module: importing `goqueue.pipeline` would load PySpark first. So it imports
nothing but the standard library until it has connected.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from typing import IO, cast

_CONNECT_S_MAX = 15
_BUFFER_BYTES = 65536


def connect() -> tuple[IO[bytes], socket.socket]:
    """Connect to the JVM, and say its secret if it asks for one, as `pyspark.util.local_connect_and_auth` does."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    timeout_s = int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", _CONNECT_S_MAX))
    if path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        connection.connect(path)
    else:
        host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
        connection = socket.create_connection((host, int(os.environ["PYTHON_WORKER_FACTORY_PORT"])), timeout_s)
    buffer_bytes = int(os.environ.get("SPARK_BUFFER_SIZE", _BUFFER_BYTES))
    stream = cast("IO[bytes]", connection.makefile("rwb", buffer_bytes))
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    if path is None and secret is not None:
        _authenticate(stream, secret.encode())
    return stream, connection


def _authenticate(stream: IO[bytes], secret: bytes) -> None:
    stream.write(struct.pack(">i", len(secret)) + secret)
    stream.flush()
    answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    if answer != b"ok":
        raise ConnectionRefusedError(f"the JVM answered {answer!r} to the planner's secret")


def main(module: str) -> None:
    """Connect, then run the module that Spark asked for over this connection."""
    opened = connect()
    # `-m` would have put the current directory there; this file's own folder must not be searched for modules.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - pathlib would be one more thing to load
    import pyspark.util

    pyspark.util.local_connect_and_auth = lambda *_asked: opened
    sys.argv = [module]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BrokenPipeError:
        # The query has ended, and Spark has hung up: nothing to report, also not when buffers are flushed at exit.
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
