"""What a worker has done so far, by task: counted by hooks of the run, and logged."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

from goqueue.client import Hooks, QueueMessage
from goqueue.worker.handling import delivery_of

_log = logging.getLogger("goqueue.worker")


@dataclass(slots=True)
class TaskCounts:
    """One task's."""

    running: int = 0
    done: int = 0
    retried: int = 0
    failed: int = 0
    ms: float = 0
    last_error: str = ""


class Progress:
    """Counts by task's name. All of it happens on the loop of the worker's client."""

    def __init__(self) -> None:
        self.tasks: dict[str, TaskCounts] = {}
        self._began_s: dict[str, float] = {}

    def hooks(self) -> Hooks:
        """What `queue.run` calls."""
        return Hooks(
            before=self._before, after=self._after, retry=self._retry, failure=self._failure, unsettled=self._unsettled
        )

    def _before(self, message: QueueMessage) -> None:
        self._counts(message).running += 1
        self._began_s[message.receipt] = time.monotonic()

    def _after(self, message: QueueMessage) -> None:
        counts, ms = self._end(message)
        counts.done += 1
        counts.ms += ms
        self._tell(logging.INFO, "done", message, ms, None)

    def _retry(self, message: QueueMessage, problem: BaseException) -> None:
        counts, ms = self._end(message)
        counts.retried += 1
        counts.last_error = f"{type(problem).__name__}: {problem}"
        self._tell(logging.WARNING, "failed and will be retried", message, ms, problem)

    def _failure(self, message: QueueMessage, problem: BaseException) -> None:
        counts, ms = self._end(message)
        counts.failed += 1
        counts.last_error = f"{type(problem).__name__}: {problem}"
        self._tell(logging.ERROR, "failed for the last time and is a dead letter", message, ms, problem)

    def _unsettled(self, message: QueueMessage, problem: BaseException) -> None:
        counts, ms = self._end(message)
        counts.last_error = f"{type(problem).__name__}: {problem}"
        self._tell(logging.WARNING, "ended after its lease had expired and may be run again", message, ms, problem)

    def _counts(self, message: QueueMessage) -> TaskCounts:
        return self.tasks.setdefault(delivery_of(message).task, TaskCounts())

    def _end(self, message: QueueMessage) -> tuple[TaskCounts, float]:
        counts = self._counts(message)
        counts.running -= 1
        return counts, (time.monotonic() - self._began_s.pop(message.receipt, time.monotonic())) * 1000

    def _tell(self, level: int, what: str, message: QueueMessage, ms: float, problem: BaseException | None) -> None:
        delivery = delivery_of(message)
        fields: dict[str, Any] = {
            "task": delivery.task,
            "id": delivery.id,
            "queue": message.topic,
            "attempt": delivery.attempt,
            "ms": round(ms, 1),
        }
        if problem is not None:
            fields["error"] = f"{type(problem).__name__}: {problem}"
        _log.log(level, "task %s %s", delivery.task, what, extra={"fields": fields})
