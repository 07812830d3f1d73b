"""The JSON of the schema registry's API. Clients of many versions send fields of their own, which are ignored here."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SchemaId = Annotated[int, Meta(ge=1, le=2**31 - 1)]
VersionNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Page = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
SchemaFormat = Literal["", "serialized", "resolved", "default"]


class RegistryReply(msgspec.Struct, omit_defaults=True, kw_only=True, rename="camel"):
    """A reply of the registry."""


class RegistryBody(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A request to the registry."""


class RegistryError(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What went wrong, by the registry's numbers."""

    error_code: int
    message: str
    # As in the rest of the API.
    code: str
    field: str | None = None
    hint: str | None = None


# --- schemas --------------------------------------------------------------------------


class ReferenceJson(RegistryBody):
    """A schema that another one uses."""

    name: str
    subject: str
    version: Annotated[int, Meta(ge=-1, le=2**31 - 1)]


class MetadataJson(RegistryBody):
    """What is registered with a schema about it."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None


class RuleJson(RegistryBody):
    """A rule that clients apply to messages."""

    name: str | None = None
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool = False


class RuleSetJson(RegistryBody):
    """Rules that clients apply to messages."""

    migration_rules: list[RuleJson] | None = None
    domain_rules: list[RuleJson] | None = None
    encoding_rules: list[RuleJson] | None = None


class SchemaBody(RegistryBody):
    """A schema to register, to look up or to compare."""

    schema: str
    schema_type: str | None = None
    references: list[ReferenceJson] | None = None
    metadata: MetadataJson | None = None
    rule_set: RuleSetJson | None = None
    # Only while a subject is being imported; -1 and 0 mean that the registry chooses.
    id: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    version: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None


class SchemaReply(RegistryReply):
    """A schema, and where it is registered if that was asked for."""

    schema_type: str
    schema: str
    subject: str | None = None
    id: int | None = None
    version: int | None = None
    guid: str | None = None
    references: list[ReferenceJson] = []
    metadata: MetadataJson | None = None
    rule_set: RuleSetJson | None = None
    deleted: bool = False
    max_id: int | None = None


class SubjectVersion(RegistryReply):
    """A version of a subject."""

    subject: str
    version: int


class ContextId(RegistryReply):
    """A schema's id in a context."""

    context: str
    id: int


class CompatibilityReply(RegistryReply):
    """Whether a schema may follow others."""

    is_compatible: bool = msgspec.field(name="is_compatible")
    messages: list[str] = []


# --- settings -------------------------------------------------------------------------


class ConfigBody(RegistryBody):
    """Settings to change; what is not named stays."""

    compatibility: str | None = None
    compatibility_level: str | None = None
    compatibility_group: str | None = None
    normalize: bool | None = None
    validation_enabled: bool | None = None
    # Known to other registries, and refused here rather than ignored.
    alias: str | None = None
    default_metadata: MetadataJson | None = None
    override_metadata: MetadataJson | None = None
    default_rule_set: RuleSetJson | None = None
    override_rule_set: RuleSetJson | None = None


class ConfigReply(RegistryReply):
    """Settings as they are now."""

    compatibility: str | None = None
    compatibility_level: str | None = None
    compatibility_group: str | None = None
    normalize: bool | None = None
    validation_enabled: bool | None = None


class ModeBody(RegistryBody):
    """A mode to set."""

    mode: str


class ModeReply(RegistryReply):
    """A mode."""

    mode: str


class SubjectStats(RegistryReply):
    """What a subject has."""

    subject: str
    versions: int
    latest_version: int
    latest_id: int
    compatibility: str


class RegistryStats(RegistryReply):
    """What the registry has."""

    subject_count: int
    total_schemas: int
    global_compatibility: str
    mode: str
    next_id: int
    subjects: list[SubjectStats]


# --- queries --------------------------------------------------------------------------


class NormalizeQuery(RegistryBody):
    """How a schema is taken."""

    normalize: bool = False


class LookupQuery(RegistryBody):
    """How a schema is looked up."""

    normalize: bool = False
    deleted: bool = False
    format: SchemaFormat = ""


class CompatibilityQuery(RegistryBody):
    """How schemas are compared, and whether the reasons are told."""

    normalize: bool = False
    verbose: bool = False


class SchemaQuery(RegistryBody):
    """How a schema is shown."""

    format: SchemaFormat = ""
    deleted: bool = False
    fetch_max_id: bool = False
    subject: str = ""


class PlacesQuery(RegistryBody):
    """Where a schema is registered: in which subject, and whether deleted versions count."""

    subject: str = ""
    deleted: bool = False
    offset: Page = 0
    limit: Page = -1


class ListQuery(RegistryBody):
    """Which subjects or versions are listed."""

    subject_prefix: str = ":*:"
    deleted: bool = False
    deleted_only: bool = False
    latest_only: bool = False
    offset: Page = 0
    limit: Page = -1


class PermanentQuery(RegistryBody):
    """Whether a deletion is for good."""

    permanent: bool = False


class ForceQuery(RegistryBody):
    """Whether a mode is set in spite of what is there."""

    force: bool = False


class ConfigQuery(RegistryBody):
    """Whether the next wider setting is told where there is none."""

    default_to_global: bool = False
