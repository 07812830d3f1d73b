"""Callers over Kafka's protocol who use names and numbers of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.servers.access.secured_node import SECRET, secured_node

from goqueue.caller import Caller, plain_address
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.kafka.decode import response_decoder
from goqueue.codec.kafka.encode import request_encoder
from goqueue.errors import TransactionalIdNotAuthorized
from goqueue.records import NewRecord, TopicPartition
from goqueue.security.model import Acl, Operation, Pattern, Permission, Resource
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.transactions.commands import Producer

TRANSACTIONAL_ID_NOT_AUTHORIZED = 53


@pytest.fixture
async def world() -> AsyncIterator[Any]:
    async with secured_node() as (running, _):
        yield running


async def ask(running: Any, principal: str, key: int, version: int, fields: dict[str, Any]) -> Any:
    peer = Peer("127.0.0.1")
    peer.gate = SimpleNamespace()  # type: ignore[assignment]
    peer.become(principal)
    frame = b"".join(request_encoder(key, version)(7, "attacker", fields))[4:]
    answered = Dispatcher(running.services).take(frame, peer)
    if isinstance(answered, Later):
        async with asyncio.timeout(10):
            answered = await answered.frame
    assert answered is not None
    return response_decoder(key, version)(memoryview(b"".join(answered)[4:]))[1]


async def allow(running: Any, operation: Operation, resource: Resource, name: str) -> None:
    rule = Acl(resource, name, Pattern.LITERAL, "User:eve", "*", operation, Permission.ALLOW)
    await running.security.admin.add_acls([rule])


async def opened(running: Any) -> Producer:
    """A transaction of the administrator in which the secret topic takes part."""
    reply = await ask(
        running,
        "User:admin",
        22,
        4,
        {"transactional_id": "payments", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
    )
    producer = Producer(reply.producer_id, reply.producer_epoch)
    root = running.services.for_caller(Caller(principal="User:admin"))
    found = await root.transactions.add_partitions("payments", producer, [TopicPartition(SECRET, 0)])
    assert not any(found.values())
    return producer


@pytest.fixture
async def victim(world: Any) -> Producer:
    return await opened(world)


@pytest.mark.parametrize("said", [None, "mine", "payments"])
async def test_a_batch_of_somebody_elses_transaction_is_refused(world: Any, victim: Producer, said: str | None) -> None:
    await allow(world, Operation.WRITE, Resource.TOPIC, SECRET)
    await allow(world, Operation.WRITE, Resource.TRANSACTIONAL_ID, "mine")
    batch = encode_batch(
        [NewRecord(b"k", b"forged")],
        producer_id=victim.producer_id,
        producer_epoch=victim.epoch,
        base_sequence=0,
        transactional=True,
        now_ms=1,
    )
    data = [{"name": SECRET, "partition_data": [{"index": 0, "records": [batch]}]}]
    fields = {"transactional_id": said, "acks": 1, "timeout": 1000, "topic_data": data}
    reply = await ask(world, "User:eve", 0, 9, fields)
    assert reply.responses[0].partition_responses[0].error_code == TRANSACTIONAL_ID_NOT_AUTHORIZED
    assert world.services.queries.offsets(SECRET, 0).high_watermark == 0


async def test_a_batch_of_a_transaction_that_another_node_coordinates_needs_an_id(world: Any) -> None:
    """This node does not know whose the producer is: without an id nobody would be asked."""
    await allow(world, Operation.WRITE, Resource.TOPIC, SECRET)
    batch = encode_batch(
        [NewRecord(b"k", b"forged")],
        producer_id=987_654,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        now_ms=1,
    )
    data = [{"name": SECRET, "partition_data": [{"index": 0, "records": [batch]}]}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": data}
    reply = await ask(world, "User:eve", 0, 9, fields)
    assert reply.responses[0].partition_responses[0].error_code == TRANSACTIONAL_ID_NOT_AUTHORIZED


async def test_offsets_are_not_committed_in_somebody_elses_transaction(world: Any, victim: Producer) -> None:
    await allow(world, Operation.READ, Resource.TOPIC, SECRET)
    await allow(world, Operation.READ, Resource.GROUP, "g")
    await allow(world, Operation.WRITE, Resource.TRANSACTIONAL_ID, "mine")
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}]
    fields = {
        "transactional_id": "mine",
        "group_id": "g",
        "producer_id": victim.producer_id,
        "producer_epoch": victim.epoch,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": SECRET, "partitions": partitions}],
    }
    reply = await ask(world, "User:eve", 28, 3, fields)
    assert reply.topics[0].partitions[0].error_code == TRANSACTIONAL_ID_NOT_AUTHORIZED


async def test_no_front_end_joins_somebody_elses_transaction(world: Any, victim: Producer) -> None:
    await allow(world, Operation.WRITE, Resource.TOPIC, SECRET)
    services = world.services.for_caller(Caller(principal="User:eve"))
    with pytest.raises(TransactionalIdNotAuthorized):
        services.transactions.admit(victim, [TopicPartition(SECRET, 0)], implicit=True)


async def test_a_transaction_does_not_reveal_topics_that_may_not_be_described(world: Any, victim: Producer) -> None:
    await allow(world, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "payments")
    reply = await ask(world, "User:eve", 65, 0, {"transactional_ids": ["payments"]})
    row = reply.transaction_states[0]
    assert (row.error_code, row.producer_id, row.topics) == (0, victim.producer_id, [])


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_a_rule_for_an_address_holds_on_a_socket_of_both_families(host: str, shown: str) -> None:
    assert plain_address(host) == shown
