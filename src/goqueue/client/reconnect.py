"""Going on when the broker is away: back-off for as long as it takes, and a line in the log at each end.

A consumer that loses its broker neither ends nor fails: it tries again until the broker answers, or until
`limit_s` has passed. Nothing is logged per attempt.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from goqueue.client.errors import BrokerBusy, BrokerUnavailable, BrokerUnreachable, ClientError

T = TypeVar("T")

# Broker away, starting, stopping, overloaded, or no longer the leader: all of that passes.
PASSING = (BrokerUnreachable, BrokerUnavailable, BrokerBusy)

_DELAY_S_FIRST = 0.1
_DELAY_S_MAX = 5.0

_log = logging.getLogger("goqueue.client")


@dataclass(slots=True)
class Outage:
    """Since when one consumer has had no broker, as its log says."""

    since_s: float | None = None


class Reconnect:
    """Keeps one consumer going. `what` names it in the log.

    A consumer receives and settles at the same time: with one `outage` for both, it is logged once.
    """

    def __init__(self, what: str, limit_s: float | None = None, outage: Outage | None = None) -> None:
        self._what = what
        self._limit_s = limit_s
        self.outage = outage or Outage()
        self._since: float | None = None
        self._attempts = 0

    async def until_it_works(self, request: Callable[[], Awaitable[T]]) -> T:
        """The answer to a request, sent again until the broker gives one; other errors are the caller's.

        Every request has the whole limit for itself, whatever became of those before it and beside it.
        """
        alone = Reconnect(self._what, self._limit_s, self.outage)
        while True:
            try:
                answer = await request()
            except PASSING as problem:
                await alone.lost(problem)
                continue
            alone.works()
            return answer

    async def lost(self, problem: ClientError) -> None:
        """The broker did not answer: wait before the next attempt, or give up if that is wanted."""
        if self._limit_s == 0:
            raise problem
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since, self._attempts = now, 0
            self._log_loss(now, problem)
        if self._limit_s is not None and now - self._since >= self._limit_s:
            _log.error(
                "%s gives up after %.1f s without a connection to the broker: %s",
                self._what,
                now - self._since,
                problem,
            )
            # Whoever asks again begins a new outage, with the whole limit.
            self._since = self.outage.since_s = None
            raise problem
        self._attempts += 1
        delay_s = min(_DELAY_S_FIRST * 2 ** min(self._attempts - 1, 10), _DELAY_S_MAX)
        # Jitter needs no secrecy: it only keeps many clients from knocking at once.
        await asyncio.sleep(delay_s * (0.5 + random.random() / 2))  # noqa: S311

    def _log_loss(self, now_s: float, problem: ClientError) -> None:
        if self.outage.since_s is None:
            self.outage.since_s = now_s
            limit = "until it answers" if self._limit_s is None else f"for up to {self._limit_s:g} s"
            _log.warning("%s lost the connection to the broker and retries %s: %s", self._what, limit, problem)

    def works(self) -> None:
        """The broker has answered."""
        if self._since is None:
            return
        self._since = None
        if self.outage.since_s is not None:
            away_s = asyncio.get_running_loop().time() - self.outage.since_s
            self.outage.since_s = None
            _log.warning("%s reconnected to the broker after %.1f s", self._what, away_s)
