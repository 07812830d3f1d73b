"""Every Kafka API in every version: before a login, as a user without rights, and as an administrator.

Requests are made from the shapes of the messages, so that an API that is added is walked through as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.servers.access.secured_node import SECRET, secured_node

from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.kafka.decode import response_decoder
from goqueue.codec.kafka.encode import request_encoder
from goqueue.codec.kafka.schema import FieldShape, message_shape
from goqueue.errors import MalformedRequest
from goqueue.records import NewRecord
from goqueue.servers.access.doors import KAFKA_NEEDS
from goqueue.servers.kafka.connections.gate import Gate
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.kafka.registry import HANDLERS

BEFORE_LOGIN = {17, 18, 36}
# Answered by a list that has nothing in it, or with what is no secret.
HARMLESS = {16: "ListGroups", 60: "DescribeCluster", 66: "ListTransactions", 74: "ListConfigResources"}
DENIED = {29, 30, 31, 53}
# A topic that may not be described has no id.
UNKNOWN = {3, 100}
_NAMES = {"group_id": "g", "transactional_id": "t", "v3_and_below_transactional_id": "t", "writer": "w"}


@pytest.fixture
async def world() -> AsyncIterator[Any]:
    async with secured_node() as (running, _):
        yield running


def cases() -> list[tuple[int, int]]:
    return [
        (key, version)
        for key, handler in sorted(HANDLERS.items())
        for version in sorted({handler.API.versions[0], handler.API.versions[1]})
    ]


def test_every_api_says_what_it_needs() -> None:
    assert HANDLERS.keys() == KAFKA_NEEDS.keys()


def test_before_a_login_only_what_a_login_needs_is_looked_at() -> None:
    security: Any = SimpleNamespace(authenticator=None, clock=None, config=None)
    looked_at = set()
    for key in (*HANDLERS, 9999, -1):
        gate = Gate(security, "192.0.2.1", lambda _: None)
        if gate.refusal(key.to_bytes(2, "big", signed=True) + b"\0\0") is None:
            looked_at.add(key)
    assert looked_at == BEFORE_LOGIN


def filled(field: FieldShape, version: int, api_key: int, topic_id: Any) -> Any:
    """A value for a field, about the secret topic wherever something has a name."""
    if field.is_array:
        return [_one(field, version, api_key, topic_id)]
    return _one(field, version, api_key, topic_id)


def _one(field: FieldShape, version: int, api_key: int, topic_id: Any) -> Any:
    match field.type:
        case "struct":
            return {
                child.name: filled(child, version, api_key, topic_id)
                for child in field.children
                if version in child.versions and child.tag is None
            }
        case "string" if api_key == 20 and field.is_nullable(version):
            return None
        case "string":
            if field.name in {"member_id", "group_instance_id", "instance_id"}:
                return "member" if api_key in {78, 79} else ""
            is_group = api_key in {15, 42, 69, 77} or (api_key == 10 and field.name in {"key", "coordinator_keys"})
            return "g" if is_group else _NAMES.get(field.name, SECRET)
        case "uuid":
            return topic_id
        case "bool":
            return False
        case "bytes":
            return b""
        case "records":
            return [encode_batch([NewRecord(b"k", b"v")], now_ms=1)]
        case "int8" if field.name == "resource_type":
            return 2
        case "int16" if field.name == "acks":
            return 1
    return field.default if isinstance(field.default, int) and field.default else 1 if "type" in field.name else 0


async def ask(running: Any, principal: str, key: int, version: int) -> Any:
    dispatcher = Dispatcher(running.services)
    peer = Peer("127.0.0.1")
    peer.gate = SimpleNamespace()  # type: ignore[assignment]
    peer.become(principal)
    topic_id = next(one.topic_id for one in running.services.topics.list() if one.name == SECRET)
    shape = message_shape(key, "request")
    fields = {
        field.name: filled(field, version, key, topic_id)
        for field in shape.fields
        if version in field.versions and field.tag is None
    }
    frame = b"".join(request_encoder(key, version)(7, "walker", fields))[4:]
    try:
        answered = dispatcher.take(frame, peer)
        if isinstance(answered, Later):
            async with asyncio.timeout(10):
                answered = await answered.frame
    except MalformedRequest as error:
        return error
    assert answered is not None
    _, reply = response_decoder(key, version)(memoryview(b"".join(answered)[4:]))
    return reply


def codes(value: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from codes(one)
    elif isinstance(value, SimpleNamespace):
        for name, found in vars(value).items():
            if name.endswith("error_code") and isinstance(found, int):
                yield found
            else:
                yield from codes(found)


@pytest.mark.parametrize(("key", "version"), [one for one in cases() if one[0] not in BEFORE_LOGIN])
async def test_whoever_has_no_right_is_refused(world: Any, key: int, version: int) -> None:
    before = world.services.queries.offsets(SECRET, 0).high_watermark
    reply = await ask(world, "User:nothing", key, version)
    name = HANDLERS[key].API.name
    assert [one.name for one in world.services.topics.list() if not one.internal] == [SECRET]
    assert world.services.queries.offsets(SECRET, 0).high_watermark == before
    if isinstance(reply, MalformedRequest):
        assert "not authorized" in str(reply), name
        return
    if key in HARMLESS:
        # What was asked for is repeated, and nothing else.
        assert SECRET not in str(reply).replace(f"unknown_state_filters=['{SECRET}']", ""), reply
        return
    if (key, version) == (9, 1):
        # This version has no place for the error of a group: it is told nothing.
        assert reply.topics == []
        return
    found = set(codes(reply))
    assert found & (DENIED | UNKNOWN), (name, reply)


@pytest.mark.parametrize(("key", "version"), [one for one in cases() if one[0] not in BEFORE_LOGIN])
async def test_an_administrator_is_refused_nothing(world: Any, key: int, version: int) -> None:
    reply = await ask(world, "User:admin", key, version)
    assert set(codes(reply)) & DENIED == set(), reply
