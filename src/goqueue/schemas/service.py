"""SchemaService: what front-ends call. A reply is given only once all that it says is durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, cast

import msgspec

from goqueue.broker.topics import TopicService
from goqueue.config import SchemasConfig
from goqueue.coordinator.runtime import Coordinator
from goqueue.errors import (
    GoQueueError,
    IncompatibleSchema,
    InvalidSchema,
    NotCoordinator,
    SchemaNotFound,
    SchemasNotInstalled,
    SchemaTooLarge,
    TooBusy,
)
from goqueue.formats.compatibility.levels import Level
from goqueue.formats.jobs import CheckSchema, CompareSchemas, DecodeValue, DecodeValues
from goqueue.formats.libraries import missing_library
from goqueue.formats.source import Checked, Problem, SchemaType, Source
from goqueue.schemas.commands import Ask, DeleteSubject, DeleteVersion, Register, SetConfig, SetMode, Stale
from goqueue.schemas.fingerprints import fingerprint_of, guid_of
from goqueue.schemas.following.mirror import RegistryMirror
from goqueue.schemas.recent import Recent
from goqueue.schemas.sources import chosen_versions, resolve_references, source_of
from goqueue.schemas.state import Basis, RegistryState
from goqueue.schemas.values import Mode, Reference, Registered, Schema, SubjectConfig
from goqueue.schemas.workers import RunsJobs, result_of

SCHEMAS = "__schemas"
# How often a registration is judged again because others registered meanwhile.
_ATTEMPTS_MAX = 50
T = TypeVar("T")


class NewSchema(msgspec.Struct, frozen=True):
    """A schema as somebody asks for it to be registered, looked up or compared."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: bytes = b""
    rule_set: bytes = b""
    schema_id: int | None = None
    version: int | None = None


class Verdict(msgspec.Struct, frozen=True):
    """Whether a schema may follow others, and what speaks against it."""

    problems: tuple[str, ...]

    @property
    def is_compatible(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.problems


class SchemaService:
    """Subjects, versions, ids, and what holds for them."""

    def __init__(
        self, coordinator: Coordinator, topics: TopicService, checker: RunsJobs, *, config: SchemasConfig
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._checker = checker
        self._config = config
        self._checked: Recent[tuple[Source, bool], Checked] = Recent(config.cache_size)
        # In a cluster, set by the node: what another node's registry says.
        self.copy: RegistryMirror | None = None
        self._missing: str | None = None
        self._looked_for_libraries = False

    async def start(self) -> None:
        """Load what is registered, if anything is: batches are checked against it as soon as they come."""
        if self._topics.find(SCHEMAS) is not None:
            # A registry that cannot be loaded keeps those from writing whose topics ask for it, and nobody else.
            with suppress(GoQueueError):
                await self._coordinator.submit_to(0, Ask(lambda _state: None))

    # --- registering ------------------------------------------------------------------

    async def register(self, subject: str, new: NewSchema, *, normalize: bool = False) -> Registered:
        """The version of a subject that has this schema; the next one if it is new and compatible."""
        for _ in range(_ATTEMPTS_MAX):
            schema, source = await self._judged(subject, new, normalize=normalize)
            found, basis = await self._standing(subject, schema.fingerprint)
            if found is None and basis.mode is Mode.READWRITE:
                await self._check_compatible(subject, source, new.metadata)
            command = Register(subject, schema, basis, new.schema_id, new.version)
            reply = await self._submit(command)
            if not isinstance(reply, Stale):
                return cast("Registered", reply)
        raise TooBusy(f"too many concurrent registrations of schemas of subject {subject!r}")

    async def lookup(
        self, subject: str, new: NewSchema, *, normalize: bool = False, deleted: bool = False
    ) -> Registered:
        """The version of a subject that has this schema, or `SchemaNotFound`."""
        await self.ask(lambda state: state.versions(subject, deleted=deleted))
        schema, _ = await self._judged(subject, new, normalize=normalize)
        found = await self.ask(lambda state: state.find(subject, schema.fingerprint, deleted=deleted))
        if found is None:
            raise SchemaNotFound
        return found

    async def test(
        self, subject: str, new: NewSchema, version: int | str | None = None, *, normalize: bool = False
    ) -> Verdict:
        """Whether a schema could follow a version, or (None) those that the subject's level asks for."""
        if version is not None:
            await self.ask(lambda state: state.version(subject, version))
        _, source = await self._judged(subject, new, normalize=normalize)
        return await self._verdict(subject, source, new.metadata, version)

    # --- reading ----------------------------------------------------------------------

    async def ask(self, look: Callable[[RegistryState], T]) -> T:
        """Any question about the registry. Asking does not make the internal topic, and needs no library."""
        if self._topics.find(SCHEMAS) is None:
            return look(RegistryState())
        try:
            return cast("T", await self._coordinator.submit_to(0, Ask(look)))
        except NotCoordinator:
            if self.copy is None:
                raise
            await self.copy.catch_up()
            if self.copy.state is None:
                raise
            return look(self.copy.state)

    async def source(self, schema_id: int) -> Source:
        """A schema with all that it references."""
        return await self.ask(lambda state: source_of(state, state.schema(schema_id)))

    async def decoded(self, schema_id: int, value: bytes, indexes: tuple[int, ...] = (0,)) -> str:
        """What a value says, as JSON."""
        source = await self.source(schema_id)
        return result_of(await self._checker.run(DecodeValue(source, value, indexes)), str)

    async def decoded_many(
        self, schema_id: int, values: Sequence[bytes], indexes: Sequence[tuple[int, ...]]
    ) -> list[tuple[str, str]]:
        """What values say, as JSON; an empty text and the reason for those that cannot be decoded."""
        self._check_installed()
        job = DecodeValues(str(schema_id), await self.source(schema_id), tuple(values), tuple(indexes))
        return result_of(await self._checker.run(job), list[tuple[str, str]])

    # --- the rest ---------------------------------------------------------------------

    async def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete a version; returns its number."""
        return cast("int", await self._submit(DeleteVersion(subject, version, permanent)))

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject; returns the numbers of its versions."""
        return cast("list[int]", await self._submit(DeleteSubject(subject, permanent)))

    async def set_config(self, scope: str, config: SubjectConfig | None) -> SubjectConfig:
        """Change settings, or (None) remove them; returns what they are now, or were."""
        return cast("SubjectConfig", await self._submit(SetConfig(scope, config)))

    async def set_mode(self, scope: str, mode: Mode | None, *, force: bool = False) -> Mode:
        """Change a mode, or (None) remove it; returns what it is now, or was."""
        return cast("Mode", await self._submit(SetMode(scope, mode, force)))

    async def close(self) -> None:
        """Answer what is outstanding and stop."""
        await self._coordinator.close()
        await self._checker.close()

    # --- judging ----------------------------------------------------------------------

    async def _judged(self, subject: str, new: NewSchema, *, normalize: bool) -> tuple[Schema, Source]:
        """The schema as it would be stored, and with all that it references."""
        self._check_installed()
        config, imports = await self.ask(
            lambda state: (state.config_of(subject), resolve_references(state, new.type, new.references))
        )
        normal = normalize or bool(config.normalize)
        source = Source(new.type, new.text, imports)
        self._check_size(source)
        checked = await self._check(source, normalize=normal)
        fingerprint = fingerprint_of(new.type, checked, new.references, new.metadata, new.rule_set)
        schema = Schema(
            type=new.type,
            text=checked.text,
            fingerprint=fingerprint,
            guid=guid_of(fingerprint),
            references=new.references,
            serialized=checked.serialized,
            names=checked.names,
            metadata=new.metadata,
            rule_set=new.rule_set,
        )
        return schema, source

    async def _standing(self, subject: str, fingerprint: bytes) -> tuple[Registered | None, Basis]:
        return await self.ask(lambda state: (state.find(subject, fingerprint), state.basis(subject)))

    async def _check(self, source: Source, *, normalize: bool) -> Checked:
        known = self._checked.get((source, normalize))
        if known is None:
            outcome = await self._checker.run(CheckSchema(source, normalize))
            known = result_of(outcome, Checked)
            self._checked.put((source, normalize), known)
        return known

    def _check_size(self, source: Source) -> None:
        size = len(source.text) + sum(len(one.text) for one in source.imports)
        if not source.text.strip():
            raise InvalidSchema("Empty schema", field="schema")
        if size > self._config.schema_bytes_max:
            raise SchemaTooLarge(
                f"the schema has {size} characters with all that it references, "
                f"more than schemas.schema_bytes_max = {self._config.schema_bytes_max}",
                field="schema",
            )

    async def _check_compatible(self, subject: str, source: Source, metadata: bytes) -> None:
        verdict = await self._verdict(subject, source, metadata, None)
        if not verdict.is_compatible:
            level = await self.ask(lambda state: state.level_of(subject))
            problems = verdict.problems
            raise IncompatibleSchema(
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
                f"[{', '.join(problems[:10])}], compatibility: '{level}'",
                problems,
            )

    async def _verdict(self, subject: str, source: Source, metadata: bytes, version: int | str | None) -> Verdict:
        level, olds = await self.ask(lambda state: chosen_versions(state, subject, metadata, version))
        if level is Level.NONE or not olds:
            return Verdict(())
        job = CompareSchemas(level, source, tuple(old for _, old in olds))
        found: list[list[Problem]] = result_of(await self._checker.run(job), list[list[Problem]])
        return Verdict(
            tuple(
                f"{problem} in version {old.version}"
                for (old, _), problems in zip(olds, found, strict=True)
                for problem in problems
            )
        )

    async def _submit(self, command: object) -> object:
        self._check_installed()
        return await self._coordinator.submit_to(0, command)

    def _check_installed(self) -> None:
        if not self._looked_for_libraries:
            self._missing = missing_library()
            self._looked_for_libraries = True
        if self._missing is not None:
            raise SchemasNotInstalled(self._missing)
