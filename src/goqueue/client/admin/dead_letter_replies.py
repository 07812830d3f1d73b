"""Dead letters and redrives, with attributes that an editor knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from goqueue.client.admin.replies import Reply


class StoredMessage(Reply):
    """A message as it lies in a topic. With `encoding`, key, value and header values are base64."""

    _defaults: ClassVar[Mapping[str, Any]] = {"encoding": None}
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    priority: str
    headers: dict[str, str | None]
    encoding: str | None


class DeadLetter(Reply):
    """One dead letter: the message in the dead-letter topic, where it came from, and what happened to it.

    Times are Unix ms.
    """

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"message": StoredMessage}
    message: StoredMessage
    topic: str
    partition: int
    offset: int
    timestamp: int
    group: str
    consumer: str
    delivery_count: int
    first_delivered_at: int
    last_delivered_at: int
    died_at: int
    reason: str
    error: str


class DeadLetters(Reply):
    """Dead letters, by partition and offset; `cursor` is the argument for the next page, None at the end."""

    _defaults: ClassVar[Mapping[str, Any]] = {"cursor": None}
    _nested: ClassVar[Mapping[str, type[Reply]]] = {"letters": DeadLetter}
    topic: str
    dlq_topic: str
    total: int
    letters: list[DeadLetter]
    cursor: str | None


class Purged(Reply):
    """How many dead letters were deleted."""

    topic: str
    dlq_topic: str
    purged: int


class RedriveState(Reply):
    """A redrive and how far it is; `state` is running, done, cancelled or failed."""

    _defaults: ClassVar[Mapping[str, Any]] = {"ended_at": None, "error": None}
    topic: str
    state: str
    dry_run: bool
    total: int
    scanned: int
    matched: int
    redriven: int
    failed: int
    started_at: int
    ended_at: int | None
    error: str | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.get("state") != "running"


class Redrive(RedriveState):
    """A redrive that was begun.

    job = await client.redrive("orders")
    print((await job.wait()).redriven)
    """

    def __init__(self, fields: Mapping[str, Any], wait: Callable[[], Awaitable[RedriveState]]) -> None:
        super().__init__(fields)
        object.__setattr__(self, "_wait", wait)

    async def wait(self) -> RedriveState:
        """Wait until it is over; returns what it did."""
        waiting: Callable[[], Awaitable[RedriveState]] = object.__getattribute__(self, "_wait")
        return await waiting()
