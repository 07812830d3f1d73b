"""The registry's API, as far as programs and the command line need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.client.transport import Transport, quoted
from goqueue.formats.source import Import, SchemaType, Source

_KEPT_MAX = 1000


class SchemaReference(msgspec.Struct, frozen=True):
    """A schema that another one uses, under the name by which the other calls it."""

    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True, rename={"type": "schemaType", "text": "schema"}):
    """A schema as the registry shows it; subject and version only where they were asked for."""

    text: str
    type: SchemaType = SchemaType.AVRO
    id: int = 0
    guid: str = ""
    subject: str = ""
    version: int = 0
    references: tuple[SchemaReference, ...] = ()
    metadata: dict[str, Any] | None = None
    deleted: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """Whether a schema may follow others, and what speaks against it."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class SubjectRow(msgspec.Struct, frozen=True, rename="camel"):
    """What a subject has."""

    subject: str
    versions: int
    latest_version: int
    latest_id: int
    compatibility: str


class _Stats(msgspec.Struct, frozen=True):
    subjects: list[SubjectRow]


class SchemaRegistry:
    """The schema registry of a broker.

    registered = await client.schemas.register("orders-value", text, type="JSON")
    print(registered.id, registered.version)
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # A schema never changes: what was asked for once is kept.
        self._sources: dict[int, Source] = {}

    async def subjects(self) -> list[SubjectRow]:
        """Subjects by name, with their latest versions."""
        return (await self._transport.call("GET", "/schemas/stats", _Stats)).subjects

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The versions of a subject."""
        params = {"deleted": "true"} if deleted else None
        return await self._transport.call("GET", f"/subjects/{quoted(subject)}/versions", list[int], params=params)

    async def version(self, subject: str, version: int | str = "latest", *, deleted: bool = False) -> RegisteredSchema:
        """One version of a subject; the latest one without a number."""
        return await self._version(subject, version, {"deleted": "true"} if deleted else {})

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        """A schema by its id."""
        return await self._transport.call("GET", f"/schemas/ids/{schema_id}", RegisteredSchema)

    async def register(
        self,
        subject: str,
        text: str,
        *,
        type: SchemaType | str = SchemaType.JSON,  # noqa: A002 - the word of the API
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Make a schema the next version of a subject, or find it registered."""
        path = f"/subjects/{quoted(subject)}/versions"
        params = {"normalize": "true"} if normalize else None
        # The same schema again has the same answer, so that a lost answer may be asked for again.
        return await self._transport.call(
            "POST", path, RegisteredSchema, body=_body(text, type, references), params=params, repeatable=True
        )

    async def lookup(
        self,
        subject: str,
        text: str,
        *,
        type: SchemaType | str = SchemaType.JSON,  # noqa: A002
        references: Sequence[SchemaReference] = (),
    ) -> RegisteredSchema:
        """The version of a subject that has this schema; `NotFound` if none has."""
        body = _body(text, type, references)
        return await self._transport.call(
            "POST", f"/subjects/{quoted(subject)}", RegisteredSchema, body=body, repeatable=True
        )

    async def check(
        self,
        subject: str,
        text: str,
        *,
        type: SchemaType | str = SchemaType.JSON,  # noqa: A002
        references: Sequence[SchemaReference] = (),
        version: int | str | None = None,
    ) -> Verdict:
        """Whether a schema could follow a version, or (None) those that the subject's level asks for."""
        path = f"/compatibility/subjects/{quoted(subject)}/versions"
        if version is not None:
            path += f"/{version}"
        body = _body(text, type, references)
        return await self._transport.call("POST", path, Verdict, body=body, params={"verbose": "true"}, repeatable=True)

    async def delete(self, subject: str, version: int | str | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a version, or a subject; returns the versions."""
        params = {"permanent": "true"} if permanent else None
        path = f"/subjects/{quoted(subject)}"
        if version is None:
            return await self._transport.call("DELETE", path, list[int], params=params)
        return [await self._transport.call("DELETE", f"{path}/versions/{version}", int, params=params)]

    async def config(self, subject: str | None = None) -> dict[str, Any]:
        """The settings that hold for a subject, or for all."""
        params = None if subject is None else {"defaultToGlobal": "true"}
        return await self._transport.call("GET", _config_path(subject), dict[str, Any], params=params)

    async def set_config(self, subject: str | None = None, **settings: object) -> dict[str, Any]:
        """Change settings: compatibility, normalize, compatibilityGroup, validationEnabled."""
        return await self._transport.call("PUT", _config_path(subject), dict[str, Any], body=settings)

    async def reset_config(self, subject: str | None = None) -> dict[str, Any]:
        """Remove settings; the next wider ones hold."""
        return await self._transport.call("DELETE", _config_path(subject), dict[str, Any])

    async def source(self, schema: int | RegisteredSchema) -> Source:
        """A schema with the text of everything that it references, ready for `goqueue.formats`."""
        schema_id = schema if isinstance(schema, int) else schema.id
        known = self._sources.get(schema_id)
        if known is None:
            # Protobuf comes as its descriptor, so that nobody needs a compiler to read messages.
            path = f"/schemas/ids/{schema_id}"
            found = await self._transport.call("GET", path, RegisteredSchema, params={"format": "serialized"})
            imports: dict[str, str] = {}
            await self._bring(found.references, imports)
            known = Source(found.type, found.text, tuple(Import(name, text) for name, text in imports.items()))
            if len(self._sources) >= _KEPT_MAX:
                self._sources.pop(next(iter(self._sources)))
            self._sources[schema_id] = known
        return known

    async def _bring(self, references: Sequence[SchemaReference], imports: dict[str, str]) -> None:
        for one in references:
            if one.name not in imports:
                found = await self._version(one.subject, one.version, {"deleted": "true", "format": "serialized"})
                await self._bring(found.references, imports)
                imports[one.name] = found.text

    async def _version(self, subject: str, version: int | str, params: dict[str, str]) -> RegisteredSchema:
        path = f"/subjects/{quoted(subject)}/versions/{version}"
        return await self._transport.call("GET", path, RegisteredSchema, params=params)


def parse_reference(text: str) -> SchemaReference:
    """A reference as people write it: name=subject:version."""
    name, equals, place = text.partition("=")
    subject, colon, version = place.rpartition(":")
    if not equals or not colon or not version.isdigit():
        raise ValueError(f"{text!r} is not of the form name=subject:version")
    return SchemaReference(name, subject, int(version))


def _body(text: str, kind: SchemaType | str, references: Sequence[SchemaReference]) -> dict[str, object]:
    return {"schema": text, "schemaType": str(kind).upper(), "references": list(references)}


def _config_path(subject: str | None) -> str:
    return "/config" if subject is None else f"/config/{quoted(subject)}"
