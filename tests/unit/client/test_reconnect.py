"""A consumer that loses its broker says so once, and once more when it is back."""

from __future__ import annotations

import asyncio
import logging

import pytest

from goqueue.client.errors import BrokerUnreachable
from goqueue.client.reconnect import Reconnect

_AWAY = BrokerUnreachable("http://127.0.0.1:9", "connection refused")


async def test_receiving_and_settling_log_one_outage_together(caplog):
    caplog.set_level(logging.WARNING, logger="goqueue.client")
    receiving = Reconnect("consumer a")
    settling = Reconnect("consumer a", outage=receiving.outage)

    for _ in range(2):
        await receiving.lost(_AWAY)
        await settling.lost(_AWAY)
    receiving.works()
    # It was waiting for its next attempt when the other one had an answer.
    await settling.lost(_AWAY)
    settling.works()

    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("consumer a lost the connection to the broker")
    assert second.startswith("consumer a reconnected to the broker after")

    await settling.lost(_AWAY)
    settling.works()
    assert len(caplog.records) == 4


async def test_a_request_behind_one_that_was_given_up_has_the_whole_limit_again():
    producer = Reconnect("producer a", limit_s=0.05)

    async def away() -> None:
        raise _AWAY

    with pytest.raises(BrokerUnreachable):
        await producer.until_it_works(away)
    answers = iter([_AWAY, None])

    async def away_once() -> str:
        if (problem := next(answers)) is not None:
            raise problem
        return "stored"

    assert await producer.until_it_works(away_once) == "stored"


async def test_requests_that_go_well_do_not_keep_one_waiting_that_does_not():
    producer = Reconnect("producer a", limit_s=0.3)

    async def away() -> None:
        raise _AWAY

    async def answers() -> None:
        return None

    async def others() -> None:
        while True:
            await producer.until_it_works(answers)
            await asyncio.sleep(0.01)

    beside = asyncio.create_task(others())
    with pytest.raises(BrokerUnreachable):
        await asyncio.wait_for(producer.until_it_works(away), 5)
    beside.cancel()
