"""Values decoded by the schemas that they name: what is wrong with a value, and what with the registry."""

from __future__ import annotations

import http.client
import io
import json
import urllib.error
import urllib.request
from email.message import Message
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

import pyarrow as pa

from goqueue.formats.source import SchemaType, Source
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.typed.registry import NoSuchSchema, Registry
from goqueue.pipeline.typed.spark_types import spark_type
from goqueue.pipeline.typed.values import TypedValues

SALE = json.dumps({"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "long"}]})
# Of version 2 the messages are in another order.
FIRST = 'syntax = "proto3"; package shop; message Sale { int64 id = 1; } message Refund { int64 sale = 1; }'
SECOND = 'syntax = "proto3"; package shop.v2; message Refund { int64 sale = 1; } message Sale { int64 id = 1; }'


class StubRegistry:
    """Has some schemas; of others it says what it was told to."""

    def __init__(self, kind: SchemaType, *texts: str, refusal: BadOption | None = None) -> None:
        self._sources = {number: Source(kind, text) for number, text in enumerate(texts, 1)}
        self._refusal = refusal or NoSuchSchema("the registry at http://r answers 404: not found")

    def source(self, schema_id: int) -> Source:
        if schema_id not in self._sources:
            raise self._refusal
        return self._sources[schema_id]


def decoded(registry: Any, *values: bytes) -> tuple[list[Any], list[str | None]]:
    column, errors = TypedValues(registry, 1, spark_type(registry.source(1))).decode(pa.array(values, pa.binary()))
    return column.to_pylist(), errors


@pytest.mark.parametrize("option", ["schemaRegistryUrl", "schema"])
def test_a_registry_that_cannot_be_asked_fails_the_task_and_makes_no_dead_letters(option: str) -> None:
    # As while it restarts, or when it refuses this user.
    registry = StubRegistry(SchemaType.AVRO, SALE, refusal=BadOption(option, "http://r does not answer"))

    with pytest.raises(BadOption, match="does not answer"):
        decoded(registry, b"\0\0\0\0\1\x0e", b"\0\0\0\0\2\x0e")


def test_a_schema_that_the_registry_does_not_have_is_told_of_the_value() -> None:
    rows, errors = decoded(StubRegistry(SchemaType.AVRO, SALE), b"\0\0\0\0\1\x0e", b"\0\0\0\0\2\x0e")

    assert rows == [{"id": 7}, None]
    assert errors == [None, "option schema: the registry at http://r answers 404: not found"]


def test_a_protobuf_message_of_another_type_is_not_taken_for_one_of_the_columns() -> None:
    sale, refund_1, sale_2, refund_2 = (
        b"\0\0\0\0\1\0\x08\x07",
        b"\0\0\0\0\1\2\2\x08\x07",
        b"\0\0\0\0\2\2\2\x08\x07",
        b"\0\0\0\0\2\0\x08\x07",
    )

    rows, errors = decoded(StubRegistry(SchemaType.PROTOBUF, FIRST, SECOND), sale, refund_1, sale_2, refund_2)

    assert rows == [{"id": 7}, None, {"id": 7}, None]
    other = "the value is a message Refund, and the columns are those of Sale"
    assert errors == [None, other, None, other]


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"", b"[]"])
def test_a_proxy_that_answers_for_the_registry_is_a_registry_that_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    def answer(*_: Any, **__: Any) -> None:
        raise urllib.error.HTTPError("http://r", 502, "Bad Gateway", Message(), io.BytesIO(body))

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    with pytest.raises(BadOption, match="option schemaRegistryUrl: http://r answers 502: Bad Gateway") as refused:
        Registry("http://r").source(2)
    assert not isinstance(refused.value, NoSuchSchema)


def test_an_answer_that_is_cut_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: Any, **__: Any) -> None:
        raise http.client.IncompleteRead(b"{")

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    with pytest.raises(BadOption, match="option schemaRegistryUrl: http://r does not answer as a registry"):
        Registry("http://r").source(2)
