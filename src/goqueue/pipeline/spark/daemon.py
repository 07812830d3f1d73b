"""Spark's daemon of Python workers, for local sessions: it loads once what every worker needs, and is quiet.

Spark forks a worker of this daemon for every task that runs beside others, and ends those that had nothing to do
for a minute. Of its own daemon each worker loads Arrow and numpy for itself, which takes longer than most tasks.
Queries are planned by workers of daemons of their own, one for each step, which live as long as they are used.

A query with a limit closes the sockets of its workers once it has enough, and a planner's is closed when it had
nothing to do for a minute. A worker finds that out when it sends the rest, and Spark's own daemon prints a
traceback for each. What goes wrong in a worker's own code is told to the JVM by the worker, and is told as before.
"""

from __future__ import annotations

import gc
import importlib
import socket
import sys

from pyspark import daemon

_AHEAD = ("goqueue.pipeline.data_source", "pandas", "pyspark.sql.pandas.serializers")
_OF_TASKS = "pyspark.worker"
_work = daemon.worker


def work(sock: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - the daemon calls it so
    """Serve tasks over one socket. Its exit code is 1 if nobody listens any more, which ends the process."""
    try:
        return int(_work(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        # A reset is what TCP tells where a Unix socket tells of a broken pipe: Spark closed it with rows unread.
        return 1


def load_ahead() -> None:
    """What workers would load, each for itself; and out of the collector's sight, so that they go on sharing it."""
    for name in _AHEAD:
        importlib.import_module(name)
    gc.freeze()


if __name__ == "__main__":
    daemon.worker = work
    if sys.argv[1:] == [_OF_TASKS]:
        load_ahead()
    daemon.manager()
