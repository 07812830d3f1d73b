"""Values to bytes and back, with the prefix that says which schema they were written with."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import msgspec

from goqueue.client.errors import NotFound
from goqueue.client.schemas.registry import RegisteredSchema, SchemaRegistry
from goqueue.errors import InvalidValue
from goqueue.formats.envelope import Envelope, message_of, open_envelope, prefix_of
from goqueue.formats.libraries import library
from goqueue.formats.source import SchemaType, Source

Headers = Sequence[tuple[str, bytes | None]]


class SchemaCodec:
    """Encodes and decodes values by the registry's schemas. Compiled schemas are kept."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._compiled: dict[int, Any] = {}
        self._unknown: set[int] = set()

    async def compiled(self, schema_id: int) -> Any:
        """A schema, ready to be used."""
        found = self._compiled.get(schema_id)
        if found is None:
            from goqueue.formats.work import compiled

            found = self._compiled[schema_id] = compiled(await self._registry.source(schema_id))
        return found

    async def encode(self, schema: RegisteredSchema, document: Any, *, message: str | None = None) -> bytes:
        """A value of JSON's types as the schema's bytes, behind a prefix. `message` names one of Protobuf's."""
        return encode_document(schema, await self.compiled(schema.id), document, message=message)

    async def decode(self, value: bytes, headers: Headers = (), *, is_key: bool = False) -> Any:
        """What a value says; raises `InvalidValue` if it names no schema, or does not fit the one that it names."""
        envelope = open_envelope(value, headers, is_key=is_key)
        if envelope.schema_id is None:
            raise InvalidValue("the value names no schema: it has neither a prefix nor a header")
        return await self._decode(envelope, value)

    async def decode_known(self, value: bytes | None, headers: Headers = ()) -> Any:
        """What a value says; None if it is not of a schema that the registry has."""
        if not value:
            return None
        try:
            envelope = open_envelope(value, headers)
            if envelope.schema_id is None or envelope.schema_id in self._unknown:
                return None
            return await self._decode(envelope, value)
        except NotFound:
            # Plain bytes may look like a prefix.
            self._unknown.add(envelope.schema_id or 0)
        except InvalidValue:
            pass
        return None

    async def _decode(self, envelope: Envelope, value: bytes) -> Any:
        compiled = await self.compiled(envelope.schema_id or 0)
        source: Source = await self._registry.source(envelope.schema_id or 0)
        if source.type is SchemaType.PROTOBUF:
            indexes, start = message_of(envelope, value)
            return compiled.decode(value[start:], indexes)
        return compiled.decode(value[envelope.start :])


def encode_document(schema: RegisteredSchema, compiled: Any, document: Any, *, message: str | None = None) -> bytes:
    """The same, with a schema that is ready."""
    if schema.type is SchemaType.PROTOBUF:
        indexes = indexes_of(compiled, message)
        return prefix_of(schema.id, indexes) + bytes(compiled.encode(document, indexes))
    if schema.type is SchemaType.AVRO:
        return prefix_of(schema.id) + encode_avro(compiled, document)
    value = msgspec.json.encode(document)
    compiled.check(value)
    return prefix_of(schema.id) + value


def encode_avro(compiled: Any, document: Any) -> bytes:
    """A value as Avro has it, without a prefix."""
    fastavro = library("fastavro")
    out = BytesIO()
    try:
        fastavro.schemaless_writer(out, compiled.parsed, document)
    except Exception as error:
        raise InvalidValue(f"the value does not fit its Avro schema: {error}") from error
    return out.getvalue()


def indexes_of(compiled: Any, name: str | None) -> tuple[int, ...]:
    """The indexes of a Protobuf message, by its name; the first message without one."""
    if name is None:
        return (0,)
    found = _search(compiled.file.message_type, name, compiled.file.package)
    if found is None:
        raise InvalidValue(f"the schema has no message {name!r}; it has {', '.join(compiled.names)}")
    return found


def _search(messages: Any, name: str, parent: str) -> tuple[int, ...] | None:
    for index, message in enumerate(messages):
        own = f"{parent}.{message.name}" if parent else message.name
        if name in {own, message.name}:
            return (index,)
        inner = _search(message.nested_type, name, own)
        if inner is not None:
            return (index, *inner)
    return None
