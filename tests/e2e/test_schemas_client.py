"""Classes as schemas: a program sends and reads instances, and other clients read what it sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from goqueue.client import InvalidArgument, RequestRefused, connect
from goqueue.client.schemas.models import model_of, schema_text
from goqueue.client.sync import connect as connect_blocking
from goqueue.errors import InvalidValue


class StructOrder(msgspec.Struct):
    id: int
    tags: list[str] = []


class StructOrderLater(msgspec.Struct):
    id: int
    tags: list[str] = []
    note: str | None = None


class PydanticOrder(pydantic.BaseModel):
    id: int
    tags: list[str] = []


@dataclass
class DataOrder:
    id: int
    tags: list[str]


class DictOrder(TypedDict):
    id: int
    tags: list[str]


def made(kind):
    return kind(id=7, tags=["new"])


def url(broker) -> str:
    return f"http://{broker.http}"


@pytest.mark.parametrize("kind", [StructOrder, PydanticOrder, DataOrder, DictOrder])
async def test_instances_are_sent_and_come_back(broker, kind):
    topic = f"typed-{kind.__name__}"
    async with connect(url(broker)) as client:
        await client.create_topic(topic, partitions=1, config={"goqueue.schema.validation": "full"})
        async with client.producer(schema=kind) as producer:
            await producer.send(topic, made(kind))
            await producer.send(topic, None)
            with pytest.raises(InvalidArgument, match="this producer sends"):
                await producer.send(topic, "text")
        async with client.consumer(topic, [topic], schema=kind) as consumer:
            first, second = [await anext(aiter(consumer)) for _ in range(2)]
        assert first.object == made(kind)
        assert second.object is None
    with SchemaRegistryClient({"url": url(broker)}) as registry:
        read = JSONDeserializer(None, schema_registry_client=registry)
        assert read(first.value, SerializationContext(topic, MessageField.VALUE)) == {"id": 7, "tags": ["new"]}


def test_the_blocking_client_does_the_same(broker):
    with connect_blocking(url(broker)) as client:
        client.create_topic("typed-blocking", partitions=1)
        with client.producer(schema=StructOrder) as producer:
            assert producer.send_and_wait("typed-blocking", StructOrder(1)).offset == 0
            producer.send("typed-blocking", StructOrder(2))
        with client.consumer("typed-blocking", ["typed-blocking"], schema=StructOrder) as consumer:
            messages = iter(consumer)
            assert [next(messages).object.id for _ in range(2)] == [1, 2]


async def test_in_production_a_schema_must_be_registered_already(broker):
    async with connect(url(broker)) as client:
        async with client.producer(schema=StructOrder, schema_register=False) as producer:
            with pytest.raises(InvalidArgument, match="goqueue schema register"):
                await producer.send("typed-strict", StructOrder(1))
        await client.schemas.register("typed-strict-value", schema_text(model_of(StructOrder)))
        async with client.producer(schema=StructOrder, schema_register=False) as producer:
            await producer.send_and_wait("typed-strict", StructOrder(1))


async def test_a_class_may_gain_a_field_with_a_default_and_nothing_else(broker):
    class Other(msgspec.Struct):
        id: str

    async with connect(url(broker)) as client:
        async with client.producer(schema=StructOrder, schema_subject="typed-evolves") as producer:
            await producer.send_and_wait("typed-evolves", StructOrder(1))
        async with client.producer(schema=StructOrderLater, schema_subject="typed-evolves") as producer:
            await producer.send_and_wait("typed-evolves", StructOrderLater(2, note="x"))
        async with client.producer(schema=Other, schema_subject="typed-evolves") as producer:
            with pytest.raises(RequestRefused) as raised:
                await producer.send("typed-evolves", Other("x"))
        assert raised.value.code == "incompatible_schema"
        async with client.consumer("typed-evolves", ["typed-evolves"], schema=StructOrderLater) as consumer:
            messages = [await anext(aiter(consumer)) for _ in range(2)]
        assert sorted((one.object.id, one.object.note) for one in messages) == [(1, None), (2, "x")]


async def test_documents_are_encoded_by_the_schema_of_a_subject(broker):
    texts = {
        "AVRO": '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}',
        "PROTOBUF": 'syntax = "proto3"; message User { string name = 1; }',
        "JSON": '{"type":"object","properties":{"name":{"type":"string"}}}',
    }

    class User(msgspec.Struct):
        name: str

    async with connect(url(broker)) as client:
        for kind, text in texts.items():
            topic = f"typed-{kind.lower()}"
            await client.create_topic(topic, partitions=1, config={"goqueue.schema.validation": "full"})
            await client.schemas.register(f"{topic}-value", text, type=kind)
            async with client.producer(schema=f"{topic}-value") as producer:
                await producer.send(topic, {"name": "ada"})
                with pytest.raises(InvalidValue):
                    await producer.send(topic, {"name": 5})
            for wanted, expected in ((User, User("ada")), (dict, {"name": "ada"})):
                async with client.consumer(f"{topic}-{wanted.__name__}", [topic], schema=wanted) as consumer:
                    message = await asyncio.wait_for(anext(aiter(consumer)), 20)
                assert message.object == expected


async def test_one_bad_value_does_not_keep_the_others_from_being_read(broker):
    async with connect(url(broker)) as client:
        await client.create_topic("typed-mixed", partitions=1)
        async with client.producer() as producer:
            for value in ('{"id": 1}', "nonsense", '{"id": 3}'):
                await producer.send("typed-mixed", value)
        async with client.consumer("typed-mixed", ["typed-mixed"], schema=StructOrder) as consumer:
            first, bad, third = [await anext(aiter(consumer)) for _ in range(3)]
        assert (first.object.id, third.object.id) == (1, 3)
        with pytest.raises(InvalidValue, match="not a StructOrder"):
            _ = bad.object
        assert bad.value == b"nonsense"


def test_what_is_no_class_with_fields_is_refused(broker):
    with connect_blocking(url(broker)) as client, pytest.raises(InvalidArgument, match="neither a class"):
        client.producer(schema=int)


def test_a_derived_schema_is_closed_and_titled():
    schema = json.loads(schema_text(model_of(StructOrder)))
    assert schema["title"] == "StructOrder"
    assert schema["$defs"]["StructOrder"]["additionalProperties"] is False
