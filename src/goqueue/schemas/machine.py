"""The registry's machine: one shard, since ids are unique over all subjects.

A schema is checked and compared outside, which may take long. The command then says what it was judged by, and is
answered with `Stale` if that has changed meanwhile; so two who register at once cannot both be the next version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from goqueue.coordinator.shard import Decision, Record
from goqueue.errors import (
    IdDoesNotMatch,
    NoSubjectConfig,
    NoSubjectMode,
    OperationNotPermitted,
    ReferenceExists,
    SchemaNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    TooManySchemas,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)
from goqueue.schemas.commands import Ask, DeleteSubject, DeleteVersion, Register, SetConfig, SetMode, Stale
from goqueue.schemas.names import GLOBAL
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
    Value,
    VersionKey,
)
from goqueue.schemas.state import RegistryState
from goqueue.schemas.values import Mode, Registered, SubjectConfig, Version

_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])
Answer = tuple[Sequence[Record], object]


class RegistryMachine:
    """A `coordinator.shard.Machine` for the registry."""

    def __init__(
        self,
        schemas_max: int,
        on_switched: Callable[[], None] | None = None,
        on_changed: Callable[[], None] | None = None,
    ) -> None:
        self.state = RegistryState(on_switched)
        self._schemas_max = schemas_max
        self._on_changed = on_changed
        self._handlers: Mapping[type, Callable[[Any, int], Answer]] = {
            Register: self._register,
            DeleteVersion: self._delete_version,
            DeleteSubject: self._delete_subject,
            SetConfig: self._set_config,
            SetMode: self._set_mode,
            Ask: self._ask,
        }

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command at once."""
        records, reply = self._handlers[type(command)](command, now_ms)
        return Decision(records=records, replies=((ticket, reply),))

    def tick(self, now_ms: int) -> Decision:  # noqa: ARG002
        """Nothing is ever due."""
        return Decision()

    def wake_at_ms(self) -> int | None:
        """Never."""
        return None

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        self.state.apply(key, value)
        if self._on_changed is not None:
            self._on_changed()

    def snapshot(self) -> bytes:
        """Every record that this state is made of."""
        return msgspec.msgpack.encode(self.state.records())

    def restore(self, data: bytes) -> None:
        """Apply the records of a snapshot."""
        for key, value in _snapshot_decoder.decode(data):
            self.state.apply(key, value)

    # --- commands ---------------------------------------------------------------------

    def _ask(self, command: Ask, _now_ms: int) -> Answer:
        return (), command.look(self.state)

    def _register(self, command: Register, now_ms: int) -> Answer:
        state, subject = self.state, command.subject
        self._check_writable(subject)
        imports = state.mode_of(subject) is Mode.IMPORT
        if (command.schema_id is not None or command.version is not None) and not imports:
            raise OperationNotPermitted(f"Subject {subject} is not in import mode", field="id")
        found = state.find(subject, command.schema.fingerprint)
        if found is not None and command.version in {None, found.version}:
            if command.schema_id not in {None, found.schema_id}:
                raise IdDoesNotMatch(f"Schema already registered with id {found.schema_id}", field="id")
            return (), found
        if state.basis(subject) != command.basis:
            return (), Stale()
        for one in command.schema.references:
            if one.version not in state.subjects.get(one.subject, {}):
                raise SchemaNotFound(f"reference {one.name!r}: subject {one.subject!r} has no version {one.version}")
        return self._add(command, now_ms)

    def _add(self, command: Register, now_ms: int) -> Answer:
        state, subject = self.state, command.subject
        records: list[Record] = []
        schema = command.schema
        schema_id = state.by_fingerprint.get(command.schema.fingerprint)
        if schema_id is None:
            if len(state.schemas) >= self._schemas_max:
                raise TooManySchemas(
                    f"the registry holds {self._schemas_max} schemas", hint="delete some, or raise schemas.schemas_max"
                )
            schema_id = command.schema_id or state.next_id
            if schema_id in state.schemas:
                raise IdDoesNotMatch(f"Overwrite of schema with id {schema_id} is not permitted", field="id")
            schema = msgspec.structs.replace(schema, registered_ms=now_ms)
            records.append(_record(SchemaKey(schema_id), schema))
            if schema_id >= state.next_id:
                records.append(_record(CounterKey(), CounterRecord(schema_id + 1)))
        elif command.schema_id not in {None, schema_id}:
            raise IdDoesNotMatch(f"Schema already registered with id {schema_id}", field="id")
        number = command.version or state.next_versions.get(subject, 1)
        if number in state.subjects.get(subject, {}):
            raise OperationNotPermitted(f"Subject {subject} has a version {number} already", field="version")
        version = Version(schema_id, registered_ms=now_ms)
        records.append(_record(VersionKey(subject, number), version))
        records.append(
            _record(SubjectKey(subject), SubjectRecord(max(number + 1, state.next_versions.get(subject, 1))))
        )
        return records, Registered(subject, number, schema_id, state.schemas.get(schema_id, schema))

    def _delete_version(self, command: DeleteVersion, _now_ms: int) -> Answer:
        state, subject = self.state, command.subject
        self._check_writable(subject)
        found = state.version(subject, command.version, deleted=True)
        if command.version == "latest" and not command.permanent:
            found = state.version(subject, command.version)
        number = found.version
        if command.permanent and not found.deleted:
            raise VersionNotSoftDeleted(subject, number)
        if not command.permanent and found.deleted:
            raise VersionSoftDeleted(subject, number)
        self._check_unreferenced(subject, [number], set())
        versions = {number: state.subjects[subject][number]}
        return self._removal(subject, versions, permanent=command.permanent), number

    def _delete_subject(self, command: DeleteSubject, _now_ms: int) -> Answer:
        state, subject = self.state, command.subject
        self._check_writable(subject)
        versions = state.versions(subject, deleted=True)
        live = {number: one for number, one in versions.items() if not one.deleted}
        if command.permanent and live:
            raise SubjectNotSoftDeleted(subject)
        if not command.permanent and not live:
            raise SubjectSoftDeleted(subject)
        self._check_unreferenced(subject, list(versions), {one.schema_id for one in versions.values()})
        records = self._removal(subject, versions if command.permanent else live, permanent=command.permanent)
        if subject in state.configs:
            records.append((KEYS.encode(ConfigKey(subject)), None))
        if subject in state.modes:
            records.append((KEYS.encode(ModeKey(subject)), None))
        return records, list(versions if command.permanent else live)

    def _removal(self, subject: str, versions: Mapping[int, Version], *, permanent: bool) -> list[Record]:
        if not permanent:
            return [
                _record(VersionKey(subject, number), msgspec.structs.replace(version, deleted=True))
                for number, version in versions.items()
            ]
        records: list[Record] = [(KEYS.encode(VersionKey(subject, number)), None) for number in versions]
        gone = {(subject, number) for number in versions}
        # A schema goes with the last version that has it.
        ids = sorted({version.schema_id for version in versions.values()})
        records += [(KEYS.encode(SchemaKey(one)), None) for one in ids if self.state.places[one] <= gone]
        return records

    def _set_config(self, command: SetConfig, _now_ms: int) -> Answer:
        state, scope = self.state, command.scope
        if command.config is None and scope != GLOBAL and scope not in state.configs:
            raise NoSubjectConfig(scope)
        self._check_writable(scope)
        key = KEYS.encode(ConfigKey(scope))
        if command.config is None:
            before = state.configs.get(scope, SubjectConfig())
            return ([(key, None)] if scope in state.configs else []), before
        config = _changed(state.configs.get(scope, SubjectConfig()), command.config)
        return [(key, VALUES.encode(config))], config

    def _set_mode(self, command: SetMode, _now_ms: int) -> Answer:
        state, scope = self.state, command.scope
        key = KEYS.encode(ModeKey(scope))
        if command.mode is None:
            if scope not in state.modes:
                raise NoSubjectMode(scope)
            return [(key, None)], state.modes[scope]
        if command.mode is Mode.READONLY_OVERRIDE and scope != GLOBAL:
            raise OperationNotPermitted("READONLY_OVERRIDE is for the whole registry", field="mode")
        if command.mode is Mode.IMPORT and not command.force:
            taken = state.subjects if scope == GLOBAL else [one for one in state.subjects if one == scope]
            if taken and state.mode_of(scope) is not Mode.IMPORT:
                raise OperationNotPermitted(
                    "Cannot import since found existing subjects", field="mode", hint="ask with force=true"
                )
        return [_record(ModeKey(scope), ModeRecord(command.mode))], command.mode

    # --- what they share --------------------------------------------------------------

    def _check_writable(self, scope: str) -> None:
        if self.state.mode_of(scope).is_read_only:
            what = f"Subject {scope}" if scope else "The registry"
            raise OperationNotPermitted(f"{what} is in read-only mode", field="subject")

    def _check_unreferenced(self, subject: str, numbers: Sequence[int], own: set[int]) -> None:
        for number in numbers:
            for schema_id in self.state.references_to(subject, number):
                if schema_id not in own:
                    raise ReferenceExists(subject, number, schema_id)


def _changed(known: SubjectConfig, wanted: SubjectConfig) -> SubjectConfig:
    """Settings that a request does not name stay as they are."""
    named = {field: value for field in wanted.__struct_fields__ if (value := getattr(wanted, field)) is not None}
    return msgspec.structs.replace(known, **named)


def _record(key: Any, value: Value) -> Record:
    return KEYS.encode(key), VALUES.encode(value)
