"""A producer's transactions while their coordinator is away, or moves to another node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.client.errors import (
    BrokerUnreachable,
    ClientError,
    RequestRefused,
    TransactionAborted,
    TransactionUnknown,
    refused,
)
from goqueue.client.producing.transaction import Transaction, TransactionSession

AWAY = BrokerUnreachable("there", "server disconnected")
MOVED = refused(503, {"code": "not_coordinator", "message": "another node coordinates it"})
OPEN = refused(409, {"code": "invalid_transaction_state", "message": "a transaction of this id is open"})
FAILED = refused(500, {"code": "storage_error", "message": "the disk failed"})
FENCED = refused(409, {"code": "transaction_fenced", "message": "another producer has it"})


class Coordinator:
    """A transport that raises what is planned for a path, one after the other, and answers afterwards."""

    def __init__(self, **planned: list[Exception]) -> None:
        self._planned = planned
        self.asked: list[str] = []
        # A heartbeat was answered.
        self.has_beaten = asyncio.Event()

    async def call(self, _method: str, path: str, _reply: type, *, body: Any, repeatable: bool) -> dict[str, Any]:
        assert body
        assert repeatable
        what = path.rpartition("/")[2]
        self.asked.append(what)
        if self._planned.get(what):
            raise self._planned[what].pop(0)
        if what == "heartbeat":
            self.has_beaten.set()
        return {"producer_id": 7, "epoch": 0, "heartbeat_interval_ms": 1, "transaction_id": f"number {len(self.asked)}"}


def session_of(coordinator: Coordinator, delivery_timeout_s: float = 30.0) -> TransactionSession:
    return TransactionSession(coordinator, "billing", 60_000, delivery_timeout_s)  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", [AWAY, MOVED])
async def test_a_begin_without_an_answer_is_sent_again(problem: Exception) -> None:
    coordinator = Coordinator(init=[problem], begin=[problem, problem])
    session = session_of(coordinator)
    await session.begin()
    assert session.transaction_id is not None
    assert coordinator.asked == ["init", "init", "begin", "begin", "begin"], "under the same epoch"
    await session.end(commit=True)


async def test_one_that_was_begun_by_a_lost_request_is_aborted_first() -> None:
    coordinator = Coordinator(begin=[AWAY, OPEN])
    session = session_of(coordinator)
    await session.begin()
    assert coordinator.asked == ["init", "begin", "begin", "abort", "begin"]
    await session.end(commit=False)


async def test_another_process_is_not_fenced_by_a_begin_that_is_sent_again() -> None:
    coordinator = Coordinator(begin=[AWAY, FENCED])
    session = session_of(coordinator)
    with pytest.raises(RequestRefused, match="another producer"):
        await session.begin()
    assert coordinator.asked == ["init", "begin", "begin"]


async def test_a_commit_is_sent_again_and_is_unknown_if_nobody_ever_says() -> None:
    coordinator = Coordinator(commit=[MOVED, AWAY])
    async with Transaction(Producer(), session := session_of(coordinator)):  # type: ignore[arg-type]
        pass
    assert coordinator.asked == ["init", "begin", "commit", "commit", "commit"]

    coordinator._planned = {"commit": [MOVED]}
    session._reconnect._limit_s = 0
    with pytest.raises(TransactionUnknown, match="another node coordinates it"):
        async with Transaction(Producer(), session):  # type: ignore[arg-type]
            pass


async def test_a_commit_at_which_the_coordinator_fails_is_unknown() -> None:
    session = session_of(Coordinator(commit=[FAILED]))
    with pytest.raises(TransactionUnknown, match="the disk failed"):
        async with Transaction(Producer(), session):  # type: ignore[arg-type]
            pass


async def test_a_heartbeat_that_meets_no_coordinator_does_not_abort_the_transaction() -> None:
    coordinator = Coordinator(heartbeat=[MOVED, AWAY])
    session = session_of(coordinator)
    await session.begin()
    await asyncio.wait_for(coordinator.has_beaten.wait(), 10)
    assert session.problem is None
    await session.end(commit=True)


async def test_a_transaction_is_not_committed_without_what_its_end_could_not_send() -> None:
    coordinator = Coordinator()
    with pytest.raises(TransactionAborted, match="could be sent, so it was aborted: not stored"):
        async with Transaction(Producer(ClientError("not stored")), session_of(coordinator)):  # type: ignore[arg-type]
            pass
    assert coordinator.asked == ["init", "begin", "abort"]


class Producer:
    """One that has nothing to send, or cannot send it."""

    def __init__(self, problem: ClientError | None = None) -> None:
        self._problem = problem

    async def flush(self) -> None:
        if self._problem is not None:
            raise self._problem
