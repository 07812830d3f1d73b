"""The tests in `tests/e2e/test_client.py`, with the same client over gRPC."""

from __future__ import annotations

import signal

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.grpc.over_grpc import _over_grpc  # noqa: F401
from tests.e2e.test_client import *  # noqa: F403

from goqueue.client import Client, DeliveryUnknown, SendFailed, TopicNotFound, connect
from goqueue.client.retry import RetryPolicy

pytestmark = pytest.mark.slow


async def test_a_tail_that_is_cut_off_says_so(client: Client, topic: str) -> None:
    """Over HTTP it can only be cut off; a gRPC stream ends with the reason."""
    async with client.producer() as producer:
        await producer.send_and_wait(topic, "one")
    tail = client.tail(topic, **{"from": "earliest"})
    assert (await anext(tail)).text == "one"

    await client.delete_topic(topic)

    with pytest.raises(TopicNotFound):
        await anext(tail)


async def test_a_batch_whose_answer_never_came_is_called_unknown(start_broker: StartBroker) -> None:
    """With more time than over HTTP: the first connection of a process takes grpcio a while."""
    broker = start_broker()
    async with connect(f"grpc://{broker.grpc}", timeout="3s", retry=RetryPolicy(attempts_max=1)) as client:
        await client.create_topic("doubt", partitions=1)
        async with client.producer() as producer:
            await producer.send_and_wait("doubt", "a")
            broker.signal(signal.SIGSTOP)
            future = await producer.send("doubt", "b")
            with pytest.raises(SendFailed, match="1 record was not stored"):
                await producer.flush()
            broker.signal(signal.SIGCONT)
            with pytest.raises(DeliveryUnknown):
                future.result()
