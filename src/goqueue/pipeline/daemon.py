"""Spark's daemon of Python workers, for local sessions: a query that has its rows ends in silence.

A query with a limit closes the sockets of its workers once it has enough. A worker finds that out
when it sends the rest, and Spark's own daemon prints a traceback for each. What goes wrong
in a worker's own code is told to the JVM by the worker, and is told as before.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_work = daemon.worker


def work(sock: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - the daemon calls it so
    """Serve tasks over one socket. Its exit code is 1 if nobody listens any more, which ends the process."""
    try:
        return int(_work(sock, authenticated))
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = work
    daemon.manager()
