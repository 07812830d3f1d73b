"""From what is registered to what the formats need: a schema with the text of everything that it references."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from goqueue.errors import InvalidSchema
from goqueue.formats.compatibility.levels import Level
from goqueue.formats.source import Import, SchemaType, Source
from goqueue.schemas.state import RegistryState
from goqueue.schemas.values import Reference, Registered, Schema

_REFERENCES_MAX = 1000


def source_of(state: RegistryState, schema: Schema) -> Source:
    """A registered schema with all that it references."""
    return Source(schema.type, _text(schema), resolve_references(state, schema.type, schema.references))


def resolve_references(
    state: RegistryState, schema_type: SchemaType, references: Sequence[Reference]
) -> tuple[Import, ...]:
    """Everything that the references lead to, each behind what it needs itself."""
    found: dict[str, str] = {}
    _resolve(state, schema_type, references, found, ())
    return tuple(Import(name, text) for name, text in found.items())


def chosen_versions(
    state: RegistryState, subject: str, metadata: bytes, version: int | str | None
) -> tuple[Level, list[tuple[Registered, Source]]]:
    """The versions that a new schema is compared with, newest first, and the level that holds."""
    level = state.level_of(subject)
    if level is Level.NONE:
        return level, []
    if version is not None:
        chosen = [state.version(subject, version)]
    else:
        group = state.config_of(subject).compatibility_group
        versions = sorted(state.subjects.get(subject, {}).items(), reverse=True)
        live = [state.registered(subject, number, one) for number, one in versions if not one.deleted]
        if group is not None:
            own = _property(metadata, group)
            live = [one for one in live if _property(one.schema.metadata, group) == own]
        chosen = live if level.is_transitive else live[:1]
    return level, [(one, source_of(state, one.schema)) for one in chosen]


def _resolve(
    state: RegistryState,
    schema_type: SchemaType,
    references: Sequence[Reference],
    found: dict[str, str],
    path: tuple[str, ...],
) -> None:
    for one in references:
        if one.name in found:
            continue
        if one.name in path or len(found) >= _REFERENCES_MAX:
            raise InvalidSchema(f"reference {one.name!r} refers to itself, or to too many others", field="references")
        # A deleted version still serves those that reference it.
        registered = state.subjects.get(one.subject, {}).get(one.version)
        if registered is None:
            raise InvalidSchema(
                f"reference {one.name!r}: subject {one.subject!r} has no version {one.version}", field="references"
            )
        schema = state.schemas[registered.schema_id]
        if schema.type is not schema_type:
            raise InvalidSchema(
                f"reference {one.name!r} is a {schema.type} schema, not {schema_type}", field="references"
            )
        _resolve(state, schema_type, schema.references, found, (*path, one.name))
        found[one.name] = _text(schema)


def _text(schema: Schema) -> str:
    # The descriptor is there already; its text would have to be compiled each time.
    return base64.b64encode(schema.serialized).decode() if schema.type is SchemaType.PROTOBUF else schema.text


def _property(metadata: bytes, name: str) -> str | None:
    if not metadata:
        return None
    properties = msgspec.json.decode(metadata).get("properties") or {}
    value = properties.get(name)
    return value if isinstance(value, str) else None
