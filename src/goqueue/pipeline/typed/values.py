"""Values of a topic, decoded by the schemas that they name, as columns of the pinned one."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from goqueue.errors import GoQueueError, InvalidValue
from goqueue.formats.avro import AvroSchema
from goqueue.formats.envelope import message_of, open_envelope
from goqueue.formats.json_schema import parse_value
from goqueue.formats.libraries import library
from goqueue.formats.protobuf import ProtobufSchema
from goqueue.formats.source import SchemaType
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.typed.arrow import arrow_type, converter
from goqueue.pipeline.typed.pinned import ERROR, UNDECODED
from goqueue.pipeline.typed.registry import NoSuchSchema, Registry

# The message of a Protobuf file that has the columns.
_FIRST = (0,)


class TypedValues:
    """Decodes values. One per task: it keeps the schemas that it has seen."""

    def __init__(self, registry: Registry, schema_id: int, kind: DataType) -> None:
        self._registry = registry
        self._id = schema_id
        self._pinned = registry.source(schema_id)
        self._convert = converter(kind)
        self._arrow = arrow_type(kind)
        self._avro: dict[int, AvroSchema] = {}
        self._protobuf: dict[int, ProtobufSchema] = {}
        self._message: Any = None
        if self._pinned.type is SchemaType.PROTOBUF:
            schema = ProtobufSchema(self._pinned)
            factory = library("google.protobuf.message_factory")
            self._message = factory.GetMessageClass(schema.pool.FindMessageTypeByName(schema.message_name(_FIRST)))
            self._protobuf[schema_id] = schema

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[str | None]]:
        """The values as a column, and why those that are null in spite of having a value are."""
        rows: list[Any] = []
        errors: list[str | None] = []
        for value in values.to_pylist():
            row = error = None
            if value is not None:
                try:
                    row = self._convert(self._decoded(value))
                except BadOption as problem:
                    # A registry that does not answer, or not to this user, says nothing of the value.
                    if not isinstance(problem, NoSuchSchema):
                        raise
                    error = str(problem)
                except (GoQueueError, TypeError, ValueError, AttributeError, ArithmeticError) as problem:
                    error = str(problem)
            rows.append(row)
            errors.append(error)
        return self._column(rows, errors), errors

    def _column(self, rows: list[Any], errors: list[str | None]) -> pa.Array:
        try:
            return pa.array(rows, self._arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            # One of them does not fit its column: find out which.
            for at, row in enumerate(rows):
                try:
                    pa.array([row], self._arrow)
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
                    rows[at], errors[at] = None, str(problem)
            return pa.array(rows, self._arrow)

    def _decoded(self, value: bytes) -> Any:
        envelope = open_envelope(value)
        if self._pinned.type is SchemaType.JSON:
            # A value without a prefix is taken for JSON, as the broker takes it where the topic allows that.
            return parse_value(value[envelope.start :])
        if envelope.schema_id is None:
            raise InvalidValue("the value names no schema")
        if self._pinned.type is SchemaType.AVRO:
            return self._avro_value(value, envelope.schema_id, envelope.start)
        indexes, start = message_of(envelope, value)
        self._check_message(envelope.schema_id, indexes)
        return _fields(self._message.FromString(value[start:]))

    def _check_message(self, schema_id: int, indexes: tuple[int, ...]) -> None:
        """Raise for a message of another type: its fields have the same numbers, and would be taken for ours."""
        if schema_id == self._id and indexes == _FIRST:
            return
        schema = self._protobuf.get(schema_id)
        if schema is None:
            schema = self._protobuf[schema_id] = ProtobufSchema(self._registry.source(schema_id))
        found, wanted = _short_name(schema, indexes), _short_name(self._protobuf[self._id], _FIRST)
        if found != wanted:
            raise InvalidValue(f"the value is a message {found}, and the columns are those of {wanted}")

    def _avro_value(self, value: bytes, schema_id: int, start: int) -> Any:
        writer = self._avro_schema(schema_id)
        reader = None if schema_id == self._id else self._avro_schema(self._id).parsed
        try:
            return library("fastavro").schemaless_reader(BytesIO(value[start:]), writer.parsed, reader)
        except Exception as error:
            raise InvalidValue(f"the value does not fit schema {schema_id}: {error!r}") from error

    def _avro_schema(self, schema_id: int) -> AvroSchema:
        found = self._avro.get(schema_id)
        if found is None:
            found = self._avro[schema_id] = AvroSchema(self._registry.source(schema_id))
        return found


def _short_name(schema: ProtobufSchema, indexes: tuple[int, ...]) -> str:
    """The name of a message within its file: another version may have another package."""
    return schema.message_name(indexes).removeprefix(f"{schema.file.package}.")


def with_typed_value(
    batch: pa.RecordBatch, typed: TypedValues, columns: Sequence[str], place: str, *, keeps_errors: bool
) -> pa.RecordBatch:
    """The batch with its values decoded; the first one that is not is an error, unless errors have a column."""
    at = batch.schema.get_field_index("value")
    column, errors = typed.decode(batch.column(at))
    if not keeps_errors:
        for number, error in enumerate(errors):
            if error is not None:
                offsets = batch.schema.get_field_index("offset")
                where = f"at offset {batch.column(offsets)[number].as_py()}" if offsets >= 0 else f"in row {number}"
                hint = "set schemaErrors to column to read on"
                raise InvalidValue(f"{place}: a value {where} does not decode: {error} ({hint})")
    arrays = {name: batch.column(name) for name in batch.schema.names}
    if ERROR in columns:
        arrays[ERROR] = pa.array(errors, pa.string())
    if UNDECODED in columns:
        is_undecoded = pa.array([error is not None for error in errors], pa.bool_())
        arrays[UNDECODED] = pc.if_else(is_undecoded, arrays["value"], pa.scalar(None, pa.binary()))
    arrays["value"] = column
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))


def _fields(message: Any) -> dict[str, Any]:
    """A message as values by name. A field that has presence and is not set is null."""
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        values[field.name] = _field(field, value)
    return values


def _field(field: Any, value: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        inner = entry.fields_by_name["value"]
        return {key: _field(inner, one) for key, one in value.items()}
    if field.is_repeated:
        return [_single(field, one) for one in value]
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is not None:
        return value if field.message_type.full_name == "google.protobuf.Timestamp" else _fields(value)
    return value
