"""The registry on a whole node in memory; only the schema worker is a real process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from goqueue.config import Config, SchemasConfig
from goqueue.errors import (
    IncompatibleSchema,
    InvalidSchema,
    SchemaNotFound,
    SchemasNotInstalled,
    SchemaTooLarge,
    SubjectNotFound,
)
from goqueue.formats.compatibility.levels import Level
from goqueue.formats.source import SchemaType
from goqueue.node.assemble import assemble
from goqueue.schemas import service as service_module
from goqueue.schemas.service import SCHEMAS, NewSchema, SchemaService
from goqueue.schemas.values import Reference, SubjectConfig
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

A = NewSchema(SchemaType.JSON, '{"type": "object", "properties": {"a": {"type": "integer"}}}')
WIDER = NewSchema(SchemaType.JSON, '{"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}')


def twice(level: int) -> str:
    """A definition that asks the next one twice."""
    next_one = f'{{"$ref": "#/definitions/d{level + 1}"}}'
    return f'"d{level}": {{"allOf": [{next_one}, {next_one}]}}'


# 2 to the power of 40 checks of one value.
SLOW = NewSchema(
    SchemaType.JSON,
    '{"$ref": "#/definitions/d0", "definitions": {'
    + ",".join(twice(level) for level in range(40))
    + ', "d40": {"type": "object"}}}',
)


def new_node(files: MemoryFiles):
    config = Config(schemas=SchemasConfig(worker_ms_max=2000, schema_bytes_max=50_000))
    return assemble(config, files=files, clock=ManualClock(), rng=seeded_rng(1), offload=InlineOffload())


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
async def services(files: MemoryFiles) -> AsyncIterator[Services]:
    node = new_node(files)
    yield (await node.start()).services
    await node.stop()


@pytest.fixture
def registry(services: Services) -> SchemaService:
    return services.schemas


async def test_asking_an_empty_registry_creates_no_topic(services, registry):
    assert await registry.ask(lambda state: state.subject_names()) == []
    with pytest.raises(SubjectNotFound):
        await registry.lookup("orders", A)
    assert services.topics.find(SCHEMAS) is None


async def test_many_who_register_one_schema_at_once_get_one_id_and_one_version(registry):
    done = await asyncio.gather(*(registry.register("orders", A) for _ in range(20)))
    assert {(one.schema_id, one.version) for one in done} == {(1, 1)}


async def test_many_who_register_different_schemas_at_once_get_versions_of_their_own(registry):
    await registry.set_config("orders", SubjectConfig(Level.NONE))
    texts = [f'{{"title": "{number}"}}' for number in range(10)]
    done = await asyncio.gather(*(registry.register("orders", NewSchema(SchemaType.JSON, text)) for text in texts))
    assert sorted(one.version for one in done) == list(range(1, 11))
    assert len({one.schema_id for one in done}) == 10


async def test_two_incompatible_schemas_at_once_cannot_both_be_the_first(registry):
    other = NewSchema(SchemaType.JSON, '{"type": "string"}')
    done = await asyncio.gather(*(registry.register("orders", one) for one in (A, other)), return_exceptions=True)
    assert sum(isinstance(one, IncompatibleSchema) for one in done) == 1


async def test_the_registry_is_the_same_after_a_restart(files):
    node = new_node(files)
    registry = (await node.start()).services.schemas
    first = await registry.register("orders", A)
    second = await registry.register("orders", WIDER)
    await registry.delete_version("orders", 1)
    await registry.set_config("orders", SubjectConfig(Level.FULL))
    await node.stop()

    node = new_node(files)
    registry = (await node.start()).services.schemas
    assert (await registry.lookup("orders", WIDER)).schema_id == second.schema_id
    assert await registry.ask(lambda state: state.level_of("orders")) is Level.FULL
    with pytest.raises(SchemaNotFound):
        await registry.lookup("orders", A)
    assert (await registry.register("other", A)).schema_id == first.schema_id
    await node.stop()


async def test_compatibility_is_judged_by_the_level_of_the_subject(registry):
    await registry.register("orders", A)
    await registry.register("orders", WIDER)
    with pytest.raises(IncompatibleSchema) as raised:
        await registry.register("orders", NewSchema(SchemaType.JSON, '{"type": "string"}'))
    assert "#/type" in raised.value.problems[0]
    assert "version 2" in raised.value.problems[0]
    assert not (await registry.test("orders", A)).is_compatible
    assert (await registry.test("orders", A, 1)).is_compatible
    await registry.set_config("orders", SubjectConfig(Level.FORWARD))
    assert (await registry.test("orders", A)).is_compatible
    assert (await registry.test("nobody", A)).is_compatible


async def test_references_lead_to_references(registry):
    def text(body: str) -> NewSchema:
        return NewSchema(SchemaType.AVRO, body)

    await registry.register("zip", text('{"type":"fixed","name":"Zip","namespace":"shop","size":5}'))
    home = '{"type":"record","name":"Home","namespace":"shop","fields":[{"name":"zip","type":"Zip"}]}'
    reference = Reference("shop.Zip", "zip", 1)
    await registry.register("home", NewSchema(SchemaType.AVRO, home, (reference,)))
    user = '{"type":"record","name":"User","fields":[{"name":"home","type":"shop.Home"}]}'
    done = await registry.register("user", NewSchema(SchemaType.AVRO, user, (Reference("shop.Home", "home", 1),)))

    assert [one.name for one in (await registry.source(done.schema_id)).imports] == ["shop.Zip", "shop.Home"]
    assert await registry.decoded(done.schema_id, b"12345") == '{"home":{"zip":"MTIzNDU="}}'
    with pytest.raises(InvalidSchema, match="has no version 2"):
        await registry.register("user", NewSchema(SchemaType.AVRO, user, (Reference("shop.Home", "home", 2),)))


async def test_a_schema_that_runs_for_hours_is_given_up_and_the_next_one_is_served(registry):
    slow = await registry.register("slow", SLOW)
    with pytest.raises(InvalidSchema, match="longer than 2 s"):
        await registry.decoded(slow.schema_id, b"{}")
    assert (await registry.register("orders", A)).version == 1


async def test_a_schema_is_bounded(registry):
    with pytest.raises(SchemaTooLarge, match="schema_bytes_max"):
        await registry.register("orders", NewSchema(SchemaType.JSON, '{"title": "' + "x" * 60_000 + '"}'))
    with pytest.raises(InvalidSchema, match="Empty"):
        await registry.register("orders", NewSchema(SchemaType.JSON, "  "))


async def test_without_the_extra_the_registry_says_what_to_install(registry, monkeypatch):
    monkeypatch.setattr(service_module, "missing_library", lambda: "fastavro")
    with pytest.raises(SchemasNotInstalled) as raised:
        await registry.register("orders", A)
    assert "goqueue[schemas]" in (raised.value.hint or "")
    # Listing runs nobody's schema.
    assert await registry.ask(lambda state: state.subject_names()) == []
