"""Records of `__schemas`. The newest record of a key is the truth; a null value deletes what the key stands for.

A layout never changes: fields may be added at the end, with a default, and anything else is
a new kind with a new number.
"""

from __future__ import annotations

import msgspec

from goqueue.coordinator.records import RecordCodec
from goqueue.schemas.values import Mode, Schema, SubjectConfig, Version


class SchemaKey(msgspec.Struct, frozen=True, array_like=True):
    """A schema by its id: `Schema`."""

    schema_id: int


class VersionKey(msgspec.Struct, frozen=True, array_like=True):
    """A version of a subject: `Version`."""

    subject: str
    version: int


class SubjectKey(msgspec.Struct, frozen=True, array_like=True):
    """A subject: `SubjectRecord`. It stays when the subject is deleted, so that no version is used twice."""

    subject: str


class ConfigKey(msgspec.Struct, frozen=True, array_like=True):
    """Settings of a subject, of a context, or (empty) of all: `SubjectConfig`."""

    scope: str


class ModeKey(msgspec.Struct, frozen=True, array_like=True):
    """The mode of a subject, of a context, or (empty) of all: `ModeRecord`."""

    scope: str


class CounterKey(msgspec.Struct, frozen=True, array_like=True):
    """The registry itself: `CounterRecord`."""


class SubjectRecord(msgspec.Struct, frozen=True, array_like=True):
    """The version that comes next."""

    next_version: int


class ModeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A mode."""

    mode: Mode


class CounterRecord(msgspec.Struct, frozen=True, array_like=True):
    """The id that comes next. Ids of deleted schemas are not used again."""

    next_id: int


Key = SchemaKey | VersionKey | SubjectKey | ConfigKey | ModeKey | CounterKey
Value = Schema | Version | SubjectRecord | SubjectConfig | ModeRecord | CounterRecord

# Numbers are on disk.
KEYS: RecordCodec[Key] = RecordCodec(
    {1: SchemaKey, 2: VersionKey, 3: SubjectKey, 4: ConfigKey, 5: ModeKey, 6: CounterKey}
)
VALUES: RecordCodec[Value] = RecordCodec(
    {1: Schema, 2: Version, 3: SubjectRecord, 4: SubjectConfig, 5: ModeRecord, 6: CounterRecord}
)
