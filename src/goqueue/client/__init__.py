"""The Python client: typed, asynchronous, with a synchronous face.

    async with goqueue.client.connect("http://127.0.0.1:8080") as client:
        async with client.producer() as producer:
            await producer.send_and_wait("orders", b"hello", key=b"customer-7")
        async with client.consumer("billing", ["orders"]) as consumer:
            async for message in consumer:
                ...
        async with client.queue("orders", group="workers") as queue:
            async for message in queue:
                await queue.ack(message)

`goqueue.client.sync.connect` offers the same without `await`.

Names are looked up when they are asked for: Spark's workers take `goqueue.client.wire` alone,
and each of them would spend half a second on an HTTP library that it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.client.connection import Client, connect
    from goqueue.client.consumer import Consumer
    from goqueue.client.errors import (
        BrokerUnreachable,
        ClientError,
        DeliveryUnknown,
        ProducerFenced,
        Reject,
        RequestRefused,
        SettleFailed,
        TransactionAborted,
        TransactionUnknown,
    )
    from goqueue.client.producer import Producer
    from goqueue.client.queue_consumer import QueueConsumer
    from goqueue.client.types import Delivered, Message, QueueMessage, Settled, TopicPartition

__all__ = [
    "BrokerUnreachable",
    "Client",
    "ClientError",
    "Consumer",
    "Delivered",
    "DeliveryUnknown",
    "Message",
    "Producer",
    "ProducerFenced",
    "QueueConsumer",
    "QueueMessage",
    "Reject",
    "RequestRefused",
    "SettleFailed",
    "Settled",
    "TopicPartition",
    "TransactionAborted",
    "TransactionUnknown",
    "connect",
]

_HOMES = {
    "connection": ("Client", "connect"),
    "consumer": ("Consumer",),
    "errors": (
        "BrokerUnreachable",
        "ClientError",
        "DeliveryUnknown",
        "ProducerFenced",
        "Reject",
        "RequestRefused",
        "SettleFailed",
        "TransactionAborted",
        "TransactionUnknown",
    ),
    "producer": ("Producer",),
    "queue_consumer": ("QueueConsumer",),
    "types": ("Delivered", "Message", "QueueMessage", "Settled", "TopicPartition"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
