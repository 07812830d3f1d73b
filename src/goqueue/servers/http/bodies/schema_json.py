"""Schemas as the registry's API has them, from and to what the service speaks of."""

from __future__ import annotations

import base64

import msgspec

from goqueue.errors import InvalidRequest, InvalidVersion
from goqueue.formats.source import SchemaType, parse_type
from goqueue.schemas.names import parse_subject
from goqueue.schemas.service import NewSchema
from goqueue.schemas.state import LATEST, RegistryState
from goqueue.schemas.values import Reference, Registered, Schema, SubjectConfig
from goqueue.security.model import Operation, Resource
from goqueue.servers.access.needs import topic_of_subject
from goqueue.servers.http.route import Call
from goqueue.servers.http.types.schemas import (
    ConfigReply,
    MetadataJson,
    ReferenceJson,
    RuleSetJson,
    SchemaBody,
    SchemaReply,
)
from goqueue.servers.services import Services

_encode = msgspec.json.Encoder(order="deterministic").encode


def subject_in(call: Call) -> str:
    """The subject that a request names, in the context that it was made in."""
    return parse_subject(call.path["subject"], call.path.get("context"))


def version_in(call: Call) -> int | str:
    """The version that a request names."""
    text = call.path["version"]
    if text in {LATEST, "-1"}:
        return LATEST
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:11]) < 2**31:
        raise InvalidVersion(text)
    return int(text)


def schema_id_in(call: Call) -> int:
    """The id that a request names."""
    text = call.path["schema_id"]
    if not text.isascii() or not text.isdigit() or int(text[:11]) >= 2**31:
        raise InvalidRequest(f"{text!r} is not a schema id", field="schema_id")
    return int(text)


def may_see(services: Services, state: RegistryState, schema_id: int) -> bool:
    """Whether the caller may describe a subject that has the schema: ids count up, and could be tried one by one."""
    access = services.access
    if access.may(Operation.DESCRIBE, Resource.CLUSTER):
        return True
    subjects = {subject for subject, _ in state.places_of(schema_id, deleted=True)}
    return any(access.may(Operation.DESCRIBE, Resource.TOPIC, topic_of_subject(one)) for one in subjects)


def new_schema(body: SchemaBody, context: str | None) -> NewSchema:
    """A schema as somebody sent it."""
    return NewSchema(
        type=parse_type(body.schema_type),
        text=body.schema,
        references=tuple(
            Reference(one.name, parse_subject(one.subject, context), one.version) for one in body.references or ()
        ),
        metadata=b"" if body.metadata is None else _encode(body.metadata),
        rule_set=b"" if body.rule_set is None else _encode(body.rule_set),
        schema_id=body.id if (body.id or 0) > 0 else None,
        version=body.version if (body.version or 0) > 0 else None,
    )


def schema_reply(schema: Schema, shown_as: str = "") -> SchemaReply:
    """A schema alone."""
    return SchemaReply(
        guid=schema.guid,
        schema_type=schema.type.value,
        references=[
            ReferenceJson(name=one.name, subject=one.subject, version=one.version) for one in schema.references
        ],
        metadata=msgspec.json.decode(schema.metadata, type=MetadataJson) if schema.metadata else None,
        rule_set=msgspec.json.decode(schema.rule_set, type=RuleSetJson) if schema.rule_set else None,
        schema=text_of(schema, shown_as),
    )


def registered_reply(registered: Registered, shown_as: str = "") -> SchemaReply:
    """A schema and where it is registered."""
    reply = schema_reply(registered.schema, shown_as)
    reply.subject, reply.version, reply.id = registered.subject, registered.version, registered.schema_id
    reply.deleted = registered.deleted
    return reply


def text_of(schema: Schema, shown_as: str) -> str:
    """A schema as text; Protobuf as base64 of its descriptor if that is asked for."""
    if shown_as == "serialized" and schema.type is SchemaType.PROTOBUF:
        return base64.b64encode(schema.serialized).decode()
    return schema.text


def config_reply(config: SubjectConfig) -> ConfigReply:
    """Settings, with the level under both of its names: clients differ in which they read."""
    level = None if config.compatibility is None else config.compatibility.value
    return ConfigReply(
        compatibility=level,
        compatibility_level=level,
        compatibility_group=config.compatibility_group,
        normalize=config.normalize,
        validation_enabled=config.validation_enabled,
    )
