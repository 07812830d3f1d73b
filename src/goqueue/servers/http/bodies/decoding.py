"""Values of messages as JSON, by the schemas that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from goqueue.errors import InvalidSchema, InvalidValue
from goqueue.formats.envelope import message_of, open_envelope
from goqueue.formats.source import SchemaType
from goqueue.records import Record
from goqueue.schemas.state import RegistryState
from goqueue.servers.http.bodies.schema_json import may_see
from goqueue.servers.http.types.common import MessageOut
from goqueue.servers.services import Services

# Values are handed to the worker in jobs of at most so many bytes, so that no other job waits for long.
_JOB_BYTES_MAX = 1024 * 1024


class Decoded(NamedTuple):
    """What a value says, or why that is not known. Without a schema id it names no schema."""

    schema_id: int | None = None
    text: str = ""
    error: str = ""


class _Encoded(NamedTuple):
    offset: int
    value: bytes
    indexes: tuple[int, ...]


async def decode_records(services: Services, records: Sequence[Record]) -> dict[int, Decoded]:
    """By offset, what the values of records of one partition say. Values that name no schema are left out."""
    found: dict[int, Decoded] = {}
    by_schema = await services.schemas.ask(lambda state: _sorted(services, state, records, found))
    for schema_id, some in by_schema.items():
        for part in _parts(some):
            try:
                rows = await services.schemas.decoded_many(
                    schema_id, [one.value for one in part], [one.indexes for one in part]
                )
            except InvalidSchema as problem:
                # Too slow or too large: then none of them is known.
                rows = [("", str(problem))] * len(part)
            for one, (text, error) in zip(part, rows, strict=True):
                found[one.offset] = Decoded(schema_id, text, error)
    return found


def with_decoded(messages: Iterable[MessageOut], found: Mapping[int, Decoded]) -> Iterable[MessageOut]:
    """The messages, each with what its value says."""
    for message in messages:
        decoded = found.get(message.offset)
        if decoded is not None:
            message.schema_id = decoded.schema_id
            message.decoded = msgspec.Raw(decoded.text.encode()) if decoded.text else None
            message.decode_error = decoded.error or None
        yield message


def _sorted(
    services: Services, state: RegistryState, records: Sequence[Record], found: dict[int, Decoded]
) -> dict[int, list[_Encoded]]:
    by_schema: dict[int, list[_Encoded]] = {}
    visible: dict[int, bool] = {}
    for record in records:
        value = record.value
        if value is None:
            continue
        try:
            envelope = open_envelope(value, record.headers)
            schema_id = envelope.schema_id if envelope.guid is None else state.by_guid.get(envelope.guid)
            if not envelope.is_named:
                continue
            schema = None if schema_id is None else state.schemas.get(schema_id)
            if schema_id is not None and schema is not None and schema_id not in visible:
                visible[schema_id] = may_see(services, state, schema_id)
            if schema_id is None or schema is None or not visible[schema_id]:
                # The same whether it is not there or may not be seen.
                found[record.offset] = Decoded(schema_id, error="the schema is not registered")
                continue
            indexes: tuple[int, ...] = (0,)
            start = envelope.start
            if schema.type is SchemaType.PROTOBUF:
                indexes, start = message_of(envelope, value)
            by_schema.setdefault(schema_id, []).append(_Encoded(record.offset, value[start:], indexes))
        except InvalidValue as problem:
            found[record.offset] = Decoded(error=str(problem))
    return by_schema


def _parts(some: Sequence[_Encoded]) -> Iterable[Sequence[_Encoded]]:
    first = size = 0
    for at, one in enumerate(some):
        if size and size + len(one.value) > _JOB_BYTES_MAX:
            yield some[first:at]
            first, size = at, 0
        size += len(one.value)
    yield some[first:]
