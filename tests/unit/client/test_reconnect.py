"""A consumer that loses its broker says so once, and once more when it is back."""

from __future__ import annotations

import logging

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
