"""The registry's machine: ids, versions, deletes, settings and modes."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.schemas.driver import Driver, schema

from goqueue.errors import GoQueueError
from goqueue.formats.compatibility.levels import Level
from goqueue.schemas.commands import DeleteSubject, DeleteVersion, Register, SetConfig, SetMode, Stale
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.values import Mode, Reference, SubjectConfig


def test_an_identical_schema_has_one_id_over_all_subjects():
    driver = Driver()
    first = driver.register("a", "x")
    assert driver.register("a", "x") == first
    other = driver.register("b", "x")
    assert (other.schema_id, other.version) == (first.schema_id, 1)
    assert driver.register("a", "y").schema_id == first.schema_id + 1


def test_who_judged_by_an_older_state_is_asked_to_judge_again():
    driver = Driver()
    basis = driver.state.basis("a")
    driver.register("a", "x")
    assert driver.run(Register("a", schema("y"), basis)) == Stale()
    assert driver.run(Register("a", schema("x"), basis)).version == 1, "what is registered is found, however late"


def test_a_version_that_is_deleted_for_good_is_never_used_again():
    driver = Driver()
    driver.register("a", "x")
    second = driver.register("a", "y")
    assert driver.refused(DeleteVersion("a", 2, permanent=True)) == "VersionNotSoftDeleted"
    assert driver.run(DeleteVersion("a", 2)) == 2
    assert driver.refused(DeleteVersion("a", 2)) == "VersionSoftDeleted"
    assert driver.run(DeleteVersion("a", 2, permanent=True)) == 2
    again = driver.register("a", "y")
    assert (again.version, again.schema_id) == (3, second.schema_id + 1)
    assert driver.refused(DeleteVersion("a", 2)) == "VersionNotFound"


def test_a_deleted_schema_registered_again_is_a_new_version_with_its_old_id():
    driver = Driver()
    first = driver.register("a", "x")
    driver.run(DeleteVersion("a", 1))
    again = driver.register("a", "x")
    assert (again.version, again.schema_id) == (2, first.schema_id)


def test_a_subject_is_deleted_for_good_only_after_it_was_deleted():
    driver = Driver()
    driver.register("a", "x")
    driver.register("a", "y")
    driver.run(SetConfig("a", SubjectConfig(Level.NONE)))
    assert driver.refused(DeleteSubject("a", permanent=True)) == "SubjectNotSoftDeleted"
    assert driver.run(DeleteSubject("a")) == [1, 2]
    assert driver.refused(DeleteSubject("a")) == "SubjectSoftDeleted"
    assert driver.state.level_of("a") is Level.BACKWARD
    assert driver.run(DeleteSubject("a", permanent=True)) == [1, 2]
    assert driver.refused(DeleteSubject("a")) == "SubjectNotFound"
    assert driver.state.schemas == {}
    assert driver.register("a", "x").version == 3


def test_what_others_reference_is_not_deleted():
    driver = Driver()
    driver.register("address", "x")
    driver.register("person", "y", Reference("x.json", "address", 1))
    assert driver.refused(DeleteVersion("address", 1)) == "ReferenceExists"
    assert driver.refused(DeleteSubject("address")) == "ReferenceExists"
    driver.run(DeleteSubject("person"))
    assert driver.run(DeleteSubject("address")) == [1]


def test_a_reference_to_nothing_is_refused():
    driver = Driver()
    command = Register("a", schema("x", Reference("n", "b", 1)), driver.state.basis("a"))
    assert driver.refused(command) == "SchemaNotFound"


def test_a_read_only_subject_takes_nothing():
    driver = Driver()
    driver.register("a", "x")
    driver.run(SetMode("a", Mode.READONLY))
    assert driver.refused(Register("a", schema("y"), driver.state.basis("a"))) == "OperationNotPermitted"
    assert driver.refused(DeleteVersion("a", 1)) == "OperationNotPermitted"
    assert driver.refused(SetConfig("a", SubjectConfig(Level.NONE))) == "OperationNotPermitted"
    driver.register("b", "y")
    driver.run(SetMode("a", None))
    driver.register("a", "y")


def test_ids_and_versions_are_chosen_only_while_importing():
    driver = Driver()
    assert driver.refused(Register("a", schema("x"), driver.state.basis("a"), 40, 7)) == "OperationNotPermitted"
    driver.run(SetMode("", Mode.IMPORT))
    imported = driver.register("a", "x", schema_id=40, version=7)
    assert (imported.schema_id, imported.version) == (40, 7)
    assert driver.refused(Register("b", schema("y"), driver.state.basis("b"), 40)) == "IdDoesNotMatch"
    assert driver.refused(Register("b", schema("x"), driver.state.basis("b"), 41)) == "IdDoesNotMatch"
    driver.run(SetMode("", Mode.READWRITE))
    after = driver.register("a", "z")
    assert (after.schema_id, after.version) == (41, 8)
    assert driver.refused(SetMode("", Mode.IMPORT)) == "OperationNotPermitted"
    assert driver.run(SetMode("", Mode.IMPORT, force=True)) is Mode.IMPORT


def test_settings_of_a_subject_come_before_those_of_its_context_and_of_all():
    driver = Driver()
    driver.run(SetConfig("", SubjectConfig(Level.FULL)))
    driver.run(SetConfig(":.team:", SubjectConfig(Level.FORWARD, normalize=True)))
    driver.run(SetConfig(":.team:a", SubjectConfig(Level.NONE)))
    assert driver.state.config_of(":.team:a") == SubjectConfig(Level.NONE, normalize=True)
    assert driver.state.level_of(":.team:b") is Level.FORWARD
    assert driver.state.level_of("b") is Level.FULL
    assert driver.run(SetConfig("", None)).compatibility is Level.FULL
    assert driver.state.level_of("b") is Level.BACKWARD
    assert driver.refused(SetConfig("b", None)) == "NoSubjectConfig"


def test_the_registry_is_bounded():
    driver = Driver(schemas_max=1)
    driver.register("a", "x")
    assert driver.refused(Register("a", schema("y"), driver.state.basis("a"))) == "TooManySchemas"


class Registry(RuleBasedStateMachine):
    """Any order of commands: ids and versions are unique for ever, and replay and snapshots give the same state."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.given: dict[tuple[str, int], str] = {}
        self.ids: dict[int, str] = {}

    @rule(subject=st.sampled_from("ab"), text=st.sampled_from("xyz"))
    def register(self, subject: str, text: str) -> None:
        done = self.driver.register(subject, text)
        assert self.given.setdefault((subject, done.version), text) == text
        assert self.ids.setdefault(done.schema_id, text) == text

    @rule(subject=st.sampled_from("ab"), version=st.integers(1, 6), permanent=st.booleans())
    def delete(self, subject: str, version: int, permanent: bool) -> None:
        self._try(DeleteVersion(subject, version, permanent))

    @rule(subject=st.sampled_from("ab"), permanent=st.booleans())
    def delete_all(self, subject: str, permanent: bool) -> None:
        self._try(DeleteSubject(subject, permanent))

    def _try(self, command: object) -> None:
        before = len(self.driver.records)
        try:
            self.driver.run(command)
        except GoQueueError:
            assert len(self.driver.records) == before

    @invariant()
    def replay_and_snapshot_agree(self) -> None:
        snapshot = self.driver.machine.snapshot()
        restored = RegistryMachine(1000)
        restored.restore(snapshot)
        as_sets = [sorted(msgspec.msgpack.decode(one)) for one in (
            snapshot, restored.snapshot(), self.driver.replayed().machine.snapshot())]  # fmt: skip
        assert as_sets[0] == as_sets[1] == as_sets[2]


TestRegistry = Registry.TestCase
TestRegistry.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
