"""The schema registry: Confluent's API, at the root and under /schemas, and per context under /contexts/{context}."""

from __future__ import annotations

from typing import Any, TypeVar

from goqueue.errors import SchemaNotFound, SubjectNotFound
from goqueue.formats.source import SchemaType
from goqueue.schemas.names import parse_context, parse_subject, split
from goqueue.schemas.state import RegistryState
from goqueue.schemas.values import Registered, Schema
from goqueue.servers.http.bodies.schema_json import (
    may_see,
    new_schema,
    registered_reply,
    schema_id_in,
    schema_reply,
    subject_in,
    text_of,
    version_in,
)
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.types.schemas import (
    CompatibilityQuery,
    CompatibilityReply,
    ContextId,
    ListQuery,
    LookupQuery,
    NormalizeQuery,
    PermanentQuery,
    PlacesQuery,
    SchemaBody,
    SchemaQuery,
    SchemaReply,
    SubjectVersion,
)
from goqueue.servers.operations import TextReply
from goqueue.servers.services import Services

T = TypeVar("T")


async def register(services: Services, call: Call) -> SchemaReply:
    """Register a schema, or find it registered."""
    subject = subject_in(call)
    new = new_schema(call.body, call.path.get("context"))
    registered = await services.schemas.register(subject, new, normalize=call.query.normalize)
    # Clients keep the schema that they are answered with, and can read only the form that they sent.
    return registered_reply(registered, "" if "{" in new.text else "serialized")


async def lookup(services: Services, call: Call) -> SchemaReply:
    """Find the version that has a schema."""
    query: LookupQuery = call.query
    new = new_schema(call.body, call.path.get("context"))
    found = await services.schemas.lookup(subject_in(call), new, normalize=query.normalize, deleted=query.deleted)
    return registered_reply(found, query.format)


async def subjects(services: Services, call: Call) -> list[str]:
    """List subjects."""
    query: ListQuery = call.query
    found = await services.schemas.ask(
        lambda state: state.subject_names(deleted=query.deleted, deleted_only=query.deleted_only)
    )
    return _page([one for one in found if _is_wanted(one, query.subject_prefix, call)], query.offset, query.limit)


async def versions(services: Services, call: Call) -> list[int]:
    """List the versions of a subject."""
    query, subject = call.query, subject_in(call)
    found = await services.schemas.ask(
        lambda state: state.versions(subject, deleted=query.deleted or query.deleted_only)
    )
    numbers = [number for number, one in found.items() if one.deleted or not query.deleted_only]
    if not numbers:
        raise SubjectNotFound(subject)
    return _page(numbers, query.offset, query.limit)


async def version(services: Services, call: Call) -> SchemaReply:
    """Show a version of a subject."""
    return registered_reply(await _version(services, call), call.query.format)


async def version_schema(services: Services, call: Call) -> TextReply:
    """Show the schema of a version as it is."""
    return _text(text_of((await _version(services, call)).schema, call.query.format))


async def referenced_by(services: Services, call: Call) -> list[int]:
    """List the ids of schemas that reference a version."""
    subject, wanted = subject_in(call), version_in(call)
    return await services.schemas.ask(
        lambda state: state.references_to(subject, state.version(subject, wanted, deleted=True).version)
    )


async def delete_version(services: Services, call: Call) -> int:
    """Delete a version."""
    return await services.schemas.delete_version(subject_in(call), version_in(call), permanent=call.query.permanent)


async def delete_subject(services: Services, call: Call) -> list[int]:
    """Delete a subject."""
    return await services.schemas.delete_subject(subject_in(call), permanent=call.query.permanent)


async def latest_with_metadata(services: Services, call: Call) -> SchemaReply:
    """Show the latest version whose metadata have the properties of the query (`key` and `value`, repeated)."""
    subject, query = subject_in(call), call.request.query
    wanted = dict(zip(query.getall("key", []), query.getall("value", []), strict=False))
    deleted = query.get("deleted", "").lower() == "true"

    def look(state: RegistryState) -> SchemaReply:
        for number, one in reversed(state.versions(subject, deleted=deleted).items()):
            reply = registered_reply(state.registered(subject, number, one), query.get("format", ""))
            properties = (reply.metadata.properties if reply.metadata else None) or {}
            if wanted.items() <= properties.items():
                return reply
        raise SchemaNotFound

    return await services.schemas.ask(look)


async def schemas(services: Services, call: Call) -> list[SchemaReply]:
    """List versions of all subjects with their schemas."""
    query: ListQuery = call.query

    def look(state: RegistryState) -> list[Registered]:
        found: list[Registered] = []
        for subject in state.subject_names(deleted=query.deleted):
            if _is_wanted(subject, query.subject_prefix, call):
                numbers = state.versions(subject, deleted=query.deleted)
                chosen = [max(numbers)] if query.latest_only else list(numbers)
                found += [state.registered(subject, number, numbers[number]) for number in chosen]
        return _page(found, query.offset, query.limit)

    return [registered_reply(one) for one in await services.schemas.ask(look)]


async def types(_services: Services, _call: Call) -> list[str]:
    """List the types of schemas."""
    return sorted(SchemaType)


async def by_id(services: Services, call: Call) -> SchemaReply:
    """Show a schema by its id."""
    schema_id, query = schema_id_in(call), call.query
    schema, next_id = await services.schemas.ask(lambda state: (_seen(services, state, schema_id), state.next_id))
    reply = schema_reply(schema, query.format)
    reply.id = schema_id
    if query.fetch_max_id:
        reply.max_id = next_id - 1
    return reply


async def text_by_id(services: Services, call: Call) -> TextReply:
    """Show a schema by its id as it is."""
    schema_id = schema_id_in(call)
    schema = await services.schemas.ask(lambda state: _seen(services, state, schema_id))
    return _text(text_of(schema, call.query.format))


async def subjects_by_id(services: Services, call: Call) -> list[str]:
    """List the subjects that have a schema."""
    found = dict.fromkeys(one.subject for one in await versions_by_id(services, call))
    return list(found)


async def versions_by_id(services: Services, call: Call) -> list[SubjectVersion]:
    """List the subjects and versions that have a schema."""
    schema_id, query = schema_id_in(call), call.query
    only = parse_subject(query.subject, call.path.get("context")) if query.subject else None
    places = await services.schemas.ask(lambda state: state.places_of(schema_id, deleted=query.deleted))
    rows = [SubjectVersion(subject=place, version=number) for place, number in places if only in {None, place}]
    return _page(rows, query.offset, query.limit)


async def by_guid(services: Services, call: Call) -> SchemaReply:
    """Show a schema by its GUID."""
    schema_id, schema = await _by_guid(services, call)
    reply = schema_reply(schema, call.query.format)
    reply.id = schema_id
    return reply


async def ids_by_guid(services: Services, call: Call) -> list[ContextId]:
    """List the id of a schema in each context that has it."""
    schema_id, _ = await _by_guid(services, call)
    places = await services.schemas.ask(lambda state: state.places_of(schema_id))
    return [ContextId(context=one, id=schema_id) for one in sorted({split(place)[0] for place, _ in places})]


async def test(services: Services, call: Call) -> CompatibilityReply:
    """Compare a schema with a version."""
    return await _test(services, call, version_in(call))


async def test_all(services: Services, call: Call) -> CompatibilityReply:
    """Compare a schema with the versions that the subject's level asks for."""
    return await _test(services, call, None)


async def _test(services: Services, call: Call, wanted: int | str | None) -> CompatibilityReply:
    new = new_schema(call.body, call.path.get("context"))
    verdict = await services.schemas.test(subject_in(call), new, wanted, normalize=call.query.normalize)
    messages = list(verdict.problems) if call.query.verbose else []
    return CompatibilityReply(is_compatible=verdict.is_compatible, messages=messages)


async def _version(services: Services, call: Call) -> Registered:
    subject, wanted = subject_in(call), version_in(call)
    # A deleted version is shown to those who name it with `deleted`.
    return await services.schemas.ask(lambda state: state.version(subject, wanted, deleted=call.query.deleted))


async def _by_guid(services: Services, call: Call) -> tuple[int, Any]:
    guid = call.path["guid"].lower()

    def look(state: RegistryState) -> tuple[int, Any]:
        schema_id = state.by_guid.get(guid)
        if schema_id is None or not may_see(services, state, schema_id):
            raise SchemaNotFound(f"Schema {guid} not found")
        return schema_id, state.schemas[schema_id]

    return await services.schemas.ask(look)


def _seen(services: Services, state: RegistryState, schema_id: int) -> Schema:
    """A schema by its id. One that the caller may not see is not there, as far as the caller is told."""
    schema = state.schema(schema_id)
    if not may_see(services, state, schema_id):
        raise SchemaNotFound(f"Schema {schema_id} not found")
    return schema


def _is_wanted(subject: str, prefix: str, call: Call) -> bool:
    context = call.path.get("context")
    if context is not None:
        own, name = split(subject)
        return own == parse_context(context) and (prefix == ":*:" or name.startswith(prefix))
    return subject.startswith(prefix.removeprefix(":*:"))


def _page(rows: list[T], offset: int, limit: int) -> list[T]:
    start = max(offset, 0)
    return rows[start:] if limit < 0 else rows[start : start + limit]


def _text(text: str) -> TextReply:
    return TextReply(text, "application/vnd.schemaregistry.v1+json")


BASES = ("/schemas", "/contexts/{context}", "/schemas/contexts/{context}")
_ERRORS = (400, 404, 422, 501, 503)
_VERSION = "/subjects/{subject}/versions/{version}"


def _route(method: str, path: str, handle: Any, summary: str, reply: Any, **more: Any) -> Route:
    errors = tuple(sorted({*_ERRORS, *more.pop("errors", ())}))
    return Route(method, path, handle, summary, {200: reply}, errors=errors, bases=BASES, is_registry=True, **more)


ROUTES = (
    _route("GET", "/subjects", subjects, "List subjects", list[str], query=ListQuery),
    _route("POST", "/subjects/{subject}", lookup, "Find the version that has a schema", SchemaReply, body=SchemaBody,
           query=LookupQuery),
    _route("DELETE", "/subjects/{subject}", delete_subject, "Delete a subject", list[int], query=PermanentQuery),
    _route("GET", "/subjects/{subject}/metadata", latest_with_metadata,
           "Show the latest version with certain metadata", SchemaReply),
    _route("GET", "/subjects/{subject}/versions", versions, "List versions", list[int], query=ListQuery),
    _route("POST", "/subjects/{subject}/versions", register, "Register a schema", SchemaReply, body=SchemaBody,
           query=NormalizeQuery, errors=(409, 429, 507)),
    _route("GET", _VERSION, version, "Show a version", SchemaReply, query=SchemaQuery),
    _route("DELETE", _VERSION, delete_version, "Delete a version", int, query=PermanentQuery),
    _route("GET", _VERSION + "/schema", version_schema, "Show the schema of a version",
           "application/vnd.schemaregistry.v1+json", query=SchemaQuery),
    _route("GET", _VERSION + "/referencedby", referenced_by, "List schemas that reference a version", list[int]),
    _route("GET", "/schemas", schemas, "List schemas", list[SchemaReply], query=ListQuery),
    _route("GET", "/schemas/types", types, "List the types of schemas", list[str]),
    _route("GET", "/schemas/ids/{schema_id}", by_id, "Show a schema", SchemaReply, query=SchemaQuery),
    _route("GET", "/schemas/ids/{schema_id}/schema", text_by_id, "Show a schema as it is",
           "application/vnd.schemaregistry.v1+json", query=SchemaQuery),
    _route("GET", "/schemas/ids/{schema_id}/subjects", subjects_by_id, "List subjects that have a schema", list[str],
           query=PlacesQuery),
    _route("GET", "/schemas/ids/{schema_id}/versions", versions_by_id, "List versions that have a schema",
           list[SubjectVersion], query=PlacesQuery),
    _route("GET", "/schemas/guids/{guid}", by_guid, "Show a schema by its GUID", SchemaReply, query=SchemaQuery),
    _route("GET", "/schemas/guids/{guid}/ids", ids_by_guid, "List the ids of a schema by its GUID", list[ContextId]),
    _route("POST", "/compatibility/subjects/{subject}/versions", test_all, "Compare a schema with a subject",
           CompatibilityReply, body=SchemaBody, query=CompatibilityQuery),
    _route("POST", "/compatibility/subjects/{subject}/versions/{version}", test, "Compare a schema with a version",
           CompatibilityReply, body=SchemaBody, query=CompatibilityQuery),
)  # fmt: skip
