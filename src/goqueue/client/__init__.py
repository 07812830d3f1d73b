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
"""

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
