"""Typed values: instances of a class, or documents of a registered schema, in place of bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.client.errors import InvalidArgument, NotFound
from goqueue.client.schemas.models import Model, model_of, schema_text
from goqueue.client.schemas.registry import RegisteredSchema, SchemaRegistry
from goqueue.client.schemas.serde import SchemaCodec, encode_document
from goqueue.client.types import Message
from goqueue.errors import InvalidValue
from goqueue.formats.envelope import open_envelope, prefix_of
from goqueue.formats.source import SchemaType


class TypedValues:
    """What a producer with a schema sends: `schema` is a class, or the name of a subject."""

    def __init__(self, registry: SchemaRegistry, schema: Any, *, register: bool, subject: str | None) -> None:
        self._registry = registry
        self._subject = schema if isinstance(schema, str) else subject
        self._model: Model | None = None if isinstance(schema, str) else model_of(schema)
        self._register = register
        # By topic: the schema that values are written with, and what encodes documents.
        self._ready: dict[str, tuple[RegisteredSchema, Any]] = {}

    def is_ready(self, topic: str) -> bool:
        """Whether `encode` may be called."""
        return topic in self._ready

    async def prepare(self, topic: str) -> None:
        """Find or register the schema of a topic."""
        if topic in self._ready:
            return
        subject = self._subject or f"{topic}-value"
        if self._model is None:
            found = await self._registry.version(subject)
            compiled = await SchemaCodec(self._registry).compiled(found.id)
            self._ready[topic] = (found, compiled)
            return
        text = schema_text(self._model)
        if self._register:
            found = await self._registry.register(subject, text)
        else:
            try:
                found = await self._registry.lookup(subject, text)
            except NotFound as problem:
                name = self._model.kind.__name__
                raise InvalidArgument(
                    f"the schema of {name} is not registered under {subject!r}",
                    f"register it with 'goqueue schema register', or pass schema_register=True ({problem})",
                ) from None
        self._ready[topic] = (found, None)

    def encode(self, topic: str, value: Any) -> bytes:
        """A value, with the prefix of its schema."""
        schema, compiled = self._ready[topic]
        if self._model is None:
            return encode_document(schema, compiled, value)
        if not _is_of(value, self._model.kind):
            raise InvalidArgument(
                f"the value is a {type(value).__name__}, and this producer sends {self._model.kind.__name__}"
            )
        return prefix_of(schema.id) + self._model.encode(value)


class TypedMessage(Message, frozen=True, kw_only=True):
    """A message whose value was decoded; `object` is the instance, or raises why it is none."""

    decoded: Any = None
    problem: Exception | None = None

    @property
    def object(self) -> Any:
        """The value as an instance of the consumer's class; None for a tombstone."""
        if self.problem is not None:
            raise self.problem
        return self.decoded


class TypedReader:
    """What a consumer with a schema makes of messages: `schema` is a class, or `dict` for plain documents."""

    def __init__(self, registry: SchemaRegistry, schema: Any) -> None:
        self._model = None if schema is dict else model_of(schema)
        self._registry = registry
        self._codec = SchemaCodec(registry)

    async def read(self, message: Message) -> TypedMessage:
        """The message with its value decoded. One that cannot be is handed on, and says so when it is looked at."""
        fields = {name: getattr(message, name) for name in Message.__struct_fields__}
        if message.value is None:
            return TypedMessage(**fields)
        try:
            return TypedMessage(**fields, decoded=await self._decoded(message.value, message.headers))
        except (InvalidValue, NotFound) as problem:
            problem.add_note(f"{message.topic}/{message.partition}@{message.offset}")
            return TypedMessage(**fields, problem=problem)

    async def _decoded(self, value: bytes, headers: tuple[tuple[str, bytes | None], ...]) -> Any:
        envelope = open_envelope(value, headers)
        if envelope.schema_id is None:
            # A value without a prefix is taken for plain JSON.
            return self._model.decode(value) if self._model else msgspec.json.decode(value)
        source = await self._registry.source(envelope.schema_id)
        if source.type is SchemaType.JSON and self._model is not None:
            return self._model.decode(value[envelope.start :])
        document = await self._codec.decode(value, headers)
        return document if self._model is None else self._model.convert(document)


def _is_of(value: Any, kind: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:
        # A TypedDict has no instances of its own.
        return isinstance(value, dict)
