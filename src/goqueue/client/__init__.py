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
    from goqueue.client.consuming.consumer import Consumer
    from goqueue.client.errors import (
        BrokerBusy,
        BrokerUnavailable,
        BrokerUnreachable,
        ClientClosed,
        ClientError,
        Closed,
        ConsumerClosed,
        DeliveryUnknown,
        GroupNotEmpty,
        GroupNotFound,
        InvalidArgument,
        NotFound,
        ProducerClosed,
        ProducerFenced,
        RecordRefused,
        Reject,
        RequestRefused,
        SendFailed,
        SettleFailed,
        TimeLimitExceeded,
        TopicExists,
        TopicNotFound,
        TransactionAborted,
        TransactionUnknown,
        Unauthorized,
        WorkerProcessDied,
    )
    from goqueue.client.options import ConsumerOptions, ProducerOptions, QueueOptions
    from goqueue.client.producing.producer import Producer
    from goqueue.client.queues.queue_consumer import QueueConsumer
    from goqueue.client.queues.runner import Hooks, Retry
    from goqueue.client.retry import RetryPolicy
    from goqueue.client.types import Delivered, Message, QueueMessage, SendFailure, Settled, TopicPartition

__all__ = [
    "BrokerBusy",
    "BrokerUnavailable",
    "BrokerUnreachable",
    "Client",
    "ClientClosed",
    "ClientError",
    "Closed",
    "Consumer",
    "ConsumerClosed",
    "ConsumerOptions",
    "Delivered",
    "DeliveryUnknown",
    "GroupNotEmpty",
    "GroupNotFound",
    "Hooks",
    "InvalidArgument",
    "Message",
    "NotFound",
    "Producer",
    "ProducerClosed",
    "ProducerFenced",
    "ProducerOptions",
    "QueueConsumer",
    "QueueMessage",
    "QueueOptions",
    "RecordRefused",
    "Reject",
    "RequestRefused",
    "Retry",
    "RetryPolicy",
    "SendFailed",
    "SendFailure",
    "SettleFailed",
    "Settled",
    "TimeLimitExceeded",
    "TopicExists",
    "TopicNotFound",
    "TopicPartition",
    "TransactionAborted",
    "TransactionUnknown",
    "Unauthorized",
    "WorkerProcessDied",
    "connect",
]

_HOMES = {
    "connection": (
        "Client",
        "connect",
    ),
    "consuming.consumer": ("Consumer",),
    "errors": (
        "BrokerBusy",
        "BrokerUnavailable",
        "BrokerUnreachable",
        "ClientClosed",
        "ClientError",
        "Closed",
        "ConsumerClosed",
        "DeliveryUnknown",
        "GroupNotEmpty",
        "GroupNotFound",
        "InvalidArgument",
        "NotFound",
        "ProducerClosed",
        "ProducerFenced",
        "RecordRefused",
        "Reject",
        "RequestRefused",
        "SendFailed",
        "SettleFailed",
        "TimeLimitExceeded",
        "TopicExists",
        "TopicNotFound",
        "TransactionAborted",
        "TransactionUnknown",
        "Unauthorized",
        "WorkerProcessDied",
    ),
    "options": (
        "ConsumerOptions",
        "ProducerOptions",
        "QueueOptions",
    ),
    "producing.producer": ("Producer",),
    "queues.queue_consumer": ("QueueConsumer",),
    "retry": ("RetryPolicy",),
    "queues.runner": (
        "Hooks",
        "Retry",
    ),
    "types": (
        "Delivered",
        "Message",
        "QueueMessage",
        "SendFailure",
        "Settled",
        "TopicPartition",
    ),
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
