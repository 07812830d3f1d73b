"""Classes as schemas: msgspec Structs, pydantic models, dataclasses and TypedDicts.

The JSON Schema of a class is closed (`additionalProperties: false`) unless the class says otherwise: a program writes
the fields that it knows, and a field with a default can then be added later without breaking BACKWARD compatibility.
"""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from typing import Any, Protocol, cast, is_typeddict

import msgspec

from goqueue.client.errors import InvalidArgument
from goqueue.errors import InvalidValue

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


# Keywords that hold values and not schemas.
_VALUES = frozenset({"default", "const", "enum", "examples"})


class Model(Protocol):
    """A class whose instances become JSON and back."""

    kind: type

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        ...

    def encode(self, value: Any) -> bytes:
        """An instance as JSON."""
        ...

    def decode(self, value: bytes) -> Any:
        """JSON as an instance."""
        ...

    def convert(self, document: Any) -> Any:
        """A value of JSON's types as an instance."""
        ...


def model_of(kind: Any) -> Model:
    """The model that a class is."""
    if _is_pydantic(kind):
        return _PydanticModel(kind)
    if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or is_dataclass(kind) or is_typeddict(kind)):
        return _MsgspecModel(kind)
    raise InvalidArgument(
        f"schema={kind!r} is neither a class with fields nor a subject",
        "give a msgspec Struct, a pydantic model, a dataclass, a TypedDict, or the name of a subject",
    )


def schema_text(model: Model) -> str:
    """The schema as it is registered: always the same text for the same class."""
    schema = _closed(model.schema())
    named = {"$schema": _DRAFT, "title": model.kind.__name__, **schema}
    return msgspec.json.encode(named, order="deterministic").decode()


class _MsgspecModel:
    def __init__(self, kind: type) -> None:
        self.kind = kind
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._encoder = msgspec.json.Encoder()

    def schema(self) -> dict[str, Any]:
        return msgspec.json.schema(self.kind)

    def encode(self, value: Any) -> bytes:
        # What no reader could read is not written: types are not checked when an instance is made.
        encoded = self._encoder.encode(value)
        self.decode(encoded)
        return encoded

    def decode(self, value: bytes) -> Any:
        try:
            return self._decoder.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise InvalidValue(f"the value is not a {self.kind.__name__}: {problem}") from problem

    def convert(self, document: Any) -> Any:
        try:
            return msgspec.convert(document, self.kind)
        except msgspec.ValidationError as problem:
            raise InvalidValue(f"the value is not a {self.kind.__name__}: {problem}") from problem


class _PydanticModel:
    def __init__(self, kind: Any) -> None:
        self.kind: Any = kind

    def schema(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.kind.model_json_schema(mode="serialization"))

    def encode(self, value: Any) -> bytes:
        return cast("str", value.model_dump_json(by_alias=True)).encode()

    def decode(self, value: bytes) -> Any:
        try:
            return self.kind.model_validate_json(value)
        except ValueError as problem:
            raise InvalidValue(f"the value is not a {self.kind.__name__}: {problem}") from problem

    def convert(self, document: Any) -> Any:
        try:
            return self.kind.model_validate(document)
        except ValueError as problem:
            raise InvalidValue(f"the value is not a {self.kind.__name__}: {problem}") from problem


def _is_pydantic(kind: Any) -> bool:
    # Whoever has such a class has imported the package.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: one if key in _VALUES else _closed(one) for key, one in schema.items()}
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
