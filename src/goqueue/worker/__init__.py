"""Tasks: functions that are called by workers, on the queue client.

    app = Worker("http://127.0.0.1:8080")

    @app.task(queue="errands", retries=5, backoff="1s..5m", timeout="30s")
    def fetch(item: str, count: int = 1) -> None: ...

    fetch.send("milk", count=2)

`goqueue worker module:app` runs them. Begin reading at `app`; `task` has what a decorated function can do, `handling`
what a worker does with one message, `running` the worker itself. Nothing here knows of the broker's inside.
"""

from __future__ import annotations

from goqueue.client import Reject, Retry, TimeLimitExceeded
from goqueue.worker.app import Worker
from goqueue.worker.arguments import InvalidTaskArguments
from goqueue.worker.handling import Delivery, UnknownTask, current
from goqueue.worker.task import Sent, Task

__all__ = [
    "Delivery",
    "InvalidTaskArguments",
    "Reject",
    "Retry",
    "Sent",
    "Task",
    "TimeLimitExceeded",
    "UnknownTask",
    "Worker",
    "current",
]
