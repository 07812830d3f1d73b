"""Sending on a stream, counted in the node's budget for answers, so that a client that does not read costs little.

grpcio finishes a write when the connection takes it. So a stream holds one message at a time, and waits with the next
until the client has read; how long it may take, and how much all clients together may leave unread, is the budget's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from goqueue.broker.reading.answer_budget import AnswerBudget

_log = logging.getLogger("goqueue.grpc")


class Sending:
    """The answers of one stream. Writes of several tasks take turns."""

    def __init__(self, context: Any, answers: AnswerBudget) -> None:
        self._context = context
        self._answers = answers
        self._turn = asyncio.Lock()
        self._size = 0

    async def write(self, message: Any) -> None:
        """Send one message, and wait until the connection has taken it."""
        async with self._turn:
            self._size = message.ByteSize() + 1
            self._answers.set_unread(self, self._size)
            try:
                await self._context.write(message)
            finally:
                self._size = 0
                self._answers.forget(self)

    def unread_bytes(self) -> int:
        """What the client has not taken yet."""
        return self._size

    def go_on(self) -> None:
        """Nothing waits here."""

    def evict(self, reason: str) -> None:
        """End the stream: the client does not read."""
        _log.warning("ending a stream of %s: %s", self._context.peer(), reason)
        self._context.cancel()
