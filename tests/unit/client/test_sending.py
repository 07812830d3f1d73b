"""Batches of a producer, when a broker fails behind the append."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.client.errors import BrokerUnavailable, ClientError, RequestRefused, refused
from goqueue.client.producing.accumulator import Batch
from goqueue.client.producing.outgoing import Outcome, Outgoing, PublishReply, Waiting
from goqueue.client.producing.sending import Sending
from goqueue.client.types import Delivered
from goqueue.records import TopicPartition

PLACE = TopicPartition("orders", 0)


class Broker:
    """Knows a batch again by its producer and sequence, as brokers do, and fails once behind its append."""

    def __init__(self, problem: ClientError) -> None:
        self._problem: ClientError | None = problem
        self._ids = 0
        self.stored: dict[tuple[int, int], list[str]] = {}

    async def call(self, _method: str, path: str, _reply: type, *, body: Any, repeatable: bool) -> Any:
        assert repeatable
        if path == "/producers/init":
            self._ids += 1
            return {"producer_id": self._ids, "epoch": 0}
        self.stored.setdefault((body["producer_id"], body["sequence"]), [one.value for one in body["messages"]])
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        return PublishReply([Outcome(0, 7)], "all")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(503, "not_enough_replicas_after_append", BrokerUnavailable), (500, "storage_error", RequestRefused)],
)
async def test_a_batch_behind_one_that_may_be_stored_is_not_taken_for_it(
    status: int, code: str, kind: type[Exception]
) -> None:
    broker = Broker(refused(status, {"code": code, "message": "written, and then it failed"}))

    async def answered(_count: int) -> None:
        """Nobody counts."""

    sending = Sending(
        broker,  # type: ignore[arg-type]
        acks="all",
        delivery_timeout_s=0,
        session=None,
        join=lambda _last, _next: False,
        answered=answered,
        on_refused=lambda *_: None,
    )
    futures: list[asyncio.Future[Delivered]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    for value, future in zip(["first", "second"], futures, strict=True):
        sending.dispatch([Batch(PLACE, 0, [Waiting(Outgoing(value), future)])])

    with pytest.raises(kind, match="written, and then it failed"):
        await futures[0]
    await futures[1]
    assert list(broker.stored.values()) == [["first"], ["second"]]
