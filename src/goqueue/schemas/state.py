"""The registry's tables, as the records of `__schemas` add up to them, and the questions that they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from goqueue.errors import SchemaNotFound, SubjectNotFound, VersionNotFound
from goqueue.formats.compatibility.levels import Level
from goqueue.schemas.names import DEFAULT_CONTEXT, scopes_of, split
from goqueue.schemas.records import (
    KEYS,
    VALUES,
    ConfigKey,
    CounterKey,
    CounterRecord,
    ModeKey,
    ModeRecord,
    SchemaKey,
    SubjectKey,
    SubjectRecord,
    VersionKey,
)
from goqueue.schemas.values import DEFAULT_CONFIG, Mode, Registered, Schema, SubjectConfig, Version

LATEST = "latest"


class Basis(msgspec.Struct, frozen=True):
    """What a judgement about a new schema rests on. If it has changed since, the judgement is made again."""

    versions: tuple[tuple[int, int], ...]
    config: SubjectConfig
    mode: Mode


class RegistryState:
    """Subjects, versions, schemas, settings. `apply` alone changes them."""

    def __init__(self, on_switched: Callable[[], None] | None = None) -> None:
        # Told when the switches of subjects have changed.
        self._on_switched = on_switched
        self.schemas: dict[int, Schema] = {}
        self.subjects: dict[str, dict[int, Version]] = {}
        self.next_versions: dict[str, int] = {}
        self.configs: dict[str, SubjectConfig] = {}
        self.modes: dict[str, Mode] = {}
        # Subjects that say themselves whether their messages are checked.
        self.switched: dict[str, bool] = {}
        self.next_id = 1
        # Changes with every record, so that what was derived from the tables is derived again.
        self.changes = 0
        self.by_fingerprint: dict[bytes, int] = {}
        self.by_guid: dict[str, int] = {}
        # Where each schema is registered.
        self.places: dict[int, set[tuple[str, int]]] = {}
        # Which schemas reference a version.
        self.referenced_by: dict[tuple[str, int], set[int]] = {}

    # --- the only mutator -------------------------------------------------------------

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        self.changes += 1
        decoded = KEYS.decode(key)
        record = None if value is None else VALUES.decode(value)
        match decoded:
            case SchemaKey(schema_id=schema_id):
                self._apply_schema(schema_id, cast("Schema | None", record))
            case VersionKey(subject=subject, version=number):
                self._apply_version(subject, number, cast("Version | None", record))
            case SubjectKey(subject=subject):
                self.next_versions[subject] = cast("SubjectRecord", record).next_version
            case ConfigKey(scope=scope):
                self._apply_config(scope, cast("SubjectConfig | None", record))
            case ModeKey(scope=scope):
                _put(self.modes, scope, None if record is None else cast("ModeRecord", record).mode)
            case CounterKey():
                self.next_id = cast("CounterRecord", record).next_id

    def _apply_config(self, scope: str, config: SubjectConfig | None) -> None:
        _put(self.configs, scope, config)
        switch = None if config is None else config.validation_enabled
        if self.switched.get(scope) != switch:
            _put(self.switched, scope, switch)
            if self._on_switched is not None:
                self._on_switched()

    def _apply_schema(self, schema_id: int, schema: Schema | None) -> None:
        known = self.schemas.pop(schema_id, None)
        if known is not None:
            self.by_fingerprint.pop(known.fingerprint, None)
            self.by_guid.pop(known.guid, None)
            for one in known.references:
                self.referenced_by[one.subject, one.version].discard(schema_id)
        if schema is not None:
            self.schemas[schema_id] = schema
            self.by_fingerprint[schema.fingerprint] = schema_id
            self.by_guid[schema.guid] = schema_id
            for one in schema.references:
                self.referenced_by.setdefault((one.subject, one.version), set()).add(schema_id)

    def _apply_version(self, subject: str, number: int, version: Version | None) -> None:
        versions = self.subjects.setdefault(subject, {})
        known = versions.pop(number, None)
        if known is not None:
            self.places[known.schema_id].discard((subject, number))
        if version is not None:
            versions[number] = version
            self.places.setdefault(version.schema_id, set()).add((subject, number))
        if not versions:
            del self.subjects[subject]

    def records(self) -> list[tuple[bytes, bytes]]:
        """Every record that this state is made of."""
        encode, value = KEYS.encode, VALUES.encode
        stored = [(encode(CounterKey()), value(CounterRecord(self.next_id)))]
        stored += [(encode(SchemaKey(one)), value(schema)) for one, schema in self.schemas.items()]
        stored += [
            (encode(SubjectKey(one)), value(SubjectRecord(number))) for one, number in self.next_versions.items()
        ]
        stored += [
            (encode(VersionKey(subject, number)), value(version))
            for subject, versions in self.subjects.items()
            for number, version in sorted(versions.items())
        ]
        stored += [(encode(ConfigKey(one)), value(config)) for one, config in self.configs.items()]
        stored += [(encode(ModeKey(one)), value(ModeRecord(mode))) for one, mode in self.modes.items()]
        return stored

    # --- questions --------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> dict[int, Version]:
        """The versions of a subject, oldest first; raises if there is none."""
        found = {
            number: version
            for number, version in sorted(self.subjects.get(subject, {}).items())
            if deleted or not version.deleted
        }
        if not found:
            raise SubjectNotFound(subject)
        return found

    def version(self, subject: str, wanted: int | str, *, deleted: bool = False) -> Registered:
        """One version of a subject, by number or `latest`."""
        versions = self.versions(subject, deleted=deleted)
        number = max(versions) if wanted == LATEST else cast("int", wanted)
        if number not in versions:
            raise VersionNotFound(wanted)
        return self.registered(subject, number, versions[number])

    def registered(self, subject: str, number: int, version: Version) -> Registered:
        """A version with its schema."""
        return Registered(subject, number, version.schema_id, self.schemas[version.schema_id], version.deleted)

    def find(self, subject: str, fingerprint: bytes, *, deleted: bool = False) -> Registered | None:
        """The newest version of a subject that has this schema."""
        schema_id = self.by_fingerprint.get(fingerprint)
        if schema_id is None:
            return None
        versions = self.subjects.get(subject, {})
        numbers = [
            number for place, number in self.places.get(schema_id, ()) if place == subject
            and (deleted or not versions[number].deleted)
        ]  # fmt: skip
        return self.registered(subject, max(numbers), versions[max(numbers)]) if numbers else None

    def schema(self, schema_id: int) -> Schema:
        """A schema by its id."""
        schema = self.schemas.get(schema_id)
        if schema is None:
            raise SchemaNotFound(f"Schema {schema_id} not found")
        return schema

    def places_of(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """The subjects and versions that have a schema."""
        self.schema(schema_id)
        return sorted(
            (subject, number)
            for subject, number in self.places.get(schema_id, ())
            if deleted or not self.subjects[subject][number].deleted
        )

    def subject_names(self, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """Subjects by name."""

        def shown(versions: dict[int, Version]) -> bool:
            live = any(not one.deleted for one in versions.values())
            return not live if deleted_only else live or deleted

        return sorted(subject for subject, versions in self.subjects.items() if shown(versions))

    def contexts(self) -> list[str]:
        """Contexts that have subjects, the default one first."""
        return [DEFAULT_CONTEXT, *sorted({split(one)[0] for one in self.subjects} - {DEFAULT_CONTEXT})]

    def references_to(self, subject: str, number: int) -> list[int]:
        """Schemas in use that reference a version."""
        found = self.referenced_by.get((subject, number), ())
        return sorted(one for one in found if self.places_of(one))

    def config_of(self, subject: str) -> SubjectConfig:
        """Settings of a subject, each from the narrowest place that has it."""
        found: dict[str, Any] = {}
        for scope in (*scopes_of(subject), None):
            config = DEFAULT_CONFIG if scope is None else self.configs.get(scope)
            for field in () if config is None else config.__struct_fields__:
                if found.get(field) is None:
                    found[field] = getattr(config, field)
        return SubjectConfig(**found)

    def mode_of(self, subject: str) -> Mode:
        """The mode that holds for a subject."""
        if self.modes.get("") is Mode.READONLY_OVERRIDE:
            return Mode.READONLY_OVERRIDE
        return next((self.modes[scope] for scope in scopes_of(subject) if scope in self.modes), Mode.READWRITE)

    def basis(self, subject: str) -> Basis:
        """What a new schema of a subject is judged by."""
        versions = self.subjects.get(subject, {})
        live = tuple(sorted((number, one.schema_id) for number, one in versions.items() if not one.deleted))
        return Basis(live, self.config_of(subject), self.mode_of(subject))

    def level_of(self, subject: str) -> Level:
        """The compatibility level that holds for a subject."""
        return self.config_of(subject).compatibility or Level.BACKWARD


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


Look = Callable[[RegistryState], Any]
