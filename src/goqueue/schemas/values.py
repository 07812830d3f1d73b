"""What the registry speaks of."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from goqueue.errors import InvalidMode
from goqueue.formats.compatibility.levels import Level
from goqueue.formats.source import SchemaType


class Mode(StrEnum):
    """What may be done with a subject."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be registered or deleted."""
        return self in {Mode.READONLY, Mode.READONLY_OVERRIDE}


def parse_mode(name: str) -> Mode:
    """The mode of that name."""
    try:
        return Mode(name.upper())
    except ValueError:
        raise InvalidMode(f"Invalid mode. Valid values are {', '.join(Mode)}", field="mode") from None


class Reference(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A schema that another one uses, under the name by which the other calls it."""

    name: str
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True, array_like=True):
    """One schema, whatever the subjects and versions that it is registered under."""

    type: SchemaType
    # As it is shown.
    text: str
    # SHA-256 of the type, the canonical form, the references, and of what is registered with them.
    fingerprint: bytes
    guid: str
    references: tuple[Reference, ...] = ()
    # Protobuf only: the FileDescriptorProto.
    serialized: bytes = b""
    # Records or messages in it, the first one first.
    names: tuple[str, ...] = ()
    # JSON, handed back as it came.
    metadata: bytes = b""
    rule_set: bytes = b""
    registered_ms: int = 0


class Version(msgspec.Struct, frozen=True, array_like=True):
    """One version of a subject."""

    schema_id: int
    deleted: bool = False
    registered_ms: int = 0


class Registered(msgspec.Struct, frozen=True):
    """A version of a subject with its schema."""

    subject: str
    version: int
    schema_id: int
    schema: Schema
    deleted: bool = False


class SubjectConfig(msgspec.Struct, frozen=True, array_like=True):
    """Settings of a subject, a context, or everywhere. None: the next wider one counts."""

    compatibility: Level | None = None
    # Whether equal schemas are stored in one spelling.
    normalize: bool | None = None
    # Versions are compared only with those whose metadata have the same value of this property.
    compatibility_group: str | None = None
    # Overrides what topics say: whether messages are checked against the subject's schemas.
    validation_enabled: bool | None = None


DEFAULT_CONFIG = SubjectConfig(Level.BACKWARD, normalize=False)
