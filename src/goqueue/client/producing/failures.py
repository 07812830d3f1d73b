"""Records that were not stored and whose sender has not looked: raised by the next flush, and logged before that.

A program that awaits the future of a record has heard of its failure. Everyone else hears of it from `flush()`,
`close()` or the end of the `with` block, and until then from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from goqueue.client.errors import SendFailed
from goqueue.client.types import SendFailure

# As many as an error carries; those beyond are counted.
FAILURES_MAX = 1_000
# How long a program has to look at its futures before the log tells.
LOOK_AFTER_S = 5.0

_log = logging.getLogger("goqueue.client")


class Answer(Protocol):
    """A future of either kind."""

    def exception(self) -> BaseException | None:
        """Why it failed."""


class Failures:
    """What a producer could not store. `was_seen` tells whether a program has looked at a future.

    Belongs to one event loop.
    """

    def __init__(self, was_seen: Callable[[Answer], bool]) -> None:
        self._was_seen = was_seen
        self._failed: deque[tuple[SendFailure, Answer]] = deque()
        self._dropped = 0
        self._logged = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, failure: SendFailure, future: Answer) -> None:
        """This record was not stored."""
        if len(self._failed) >= FAILURES_MAX:
            self._forget_seen()
        if len(self._failed) >= FAILURES_MAX:
            self._dropped += 1
        else:
            self._failed.append((failure, future))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_AFTER_S, self._log_unseen)

    def take(self) -> SendFailed | None:
        """The error to raise for all that nobody has looked at; afterwards it counts as told."""
        self._forget_seen()
        failures = []
        for failure, future in self._failed:
            failures.append(failure)
            # This marks it as looked at, so that the event loop does not log it a second time.
            future.exception()
        count = len(failures) + self._dropped
        self._failed.clear()
        self._dropped = self._logged = 0
        return SendFailed(failures, count) if failures else None

    def close(self) -> None:
        """Log nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_seen(self) -> None:
        self._failed = deque(one for one in self._failed if not self._was_seen(one[1]))

    def _log_unseen(self) -> None:
        self._timer = None
        self._forget_seen()
        count = len(self._failed) + self._dropped
        if count <= self._logged:
            return
        last, _ = self._failed[-1]
        fresh = count - self._logged
        _log.error(
            "%d %s not retrieved; the last one is for topic %r: %s",
            fresh,
            "record was not stored, and the result of its future was"
            if fresh == 1
            else "records were not stored, and the results of their futures were",
            last.topic,
            last.error,
        )
        self._logged = count


def asyncio_future_was_seen(future: Answer) -> bool:
    """Whether a result was taken from a failed asyncio future: the flag by which the loop itself decides to log it."""
    return not getattr(future, "_log_traceback", True)
