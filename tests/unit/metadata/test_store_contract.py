"""What every engine of the metadata store promises, asked of each engine in the same words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from uuid import UUID

import pytest
from msgspec import structs
from tests.unit.broker.stack import at_once

from goqueue.errors import Conflict, GuardFailed, ShuttingDown, TopicExists, TopicNotFound, UnsupportedFeatureLevel
from goqueue.metadata.deltas import HISTORY_MAX
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    BrokerDefaultsChanged,
    DeletionFinished,
    Delta,
    Event,
    FeatureFinalised,
    GroupSettings,
    GroupSettingsChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.features import METADATA_VERSION
from goqueue.metadata.image import ABSENT
from goqueue.metadata.keys import PRODUCER_IDS, group_settings_key, partition_key, settings_key, topic_key
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard, MetadataStore, RevisionCompacted
from goqueue.testing.clock import ManualClock
from goqueue.testing.kv_model import KvModel
from goqueue.testing.memory_files import MemoryFiles

ONE = Assignment(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
A, B = UUID(int=1), UUID(int=2)


class Embedded:
    """Each opening closes the former: a directory has one owner."""

    def __init__(self) -> None:
        self._files = MemoryFiles()
        self._store: LocalMetadata | None = None

    async def open(self) -> MetadataStore:
        await self.close()
        self._store = LocalMetadata.open(self._files, clock=ManualClock(), rng=Random(1), offload=at_once)
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class Shared:
    """Each opening is another node of the cluster."""

    def __init__(self) -> None:
        self._model = KvModel()
        self._stores: list[KvMetadata] = []

    async def open(self) -> MetadataStore:
        rng = Random(len(self._stores))
        self._stores.append(await KvMetadata.open(self._model.client(), prefix="/goqueue", rng=rng))
        return self._stores[-1]

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


Engine = Embedded | Shared


@pytest.fixture(params=[Embedded, Shared])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    engine = request.param()
    yield engine
    await engine.close()


@pytest.fixture
async def store(engine: Engine) -> MetadataStore:
    return await engine.open()


def created(name: str, topic_id: UUID, partitions: int = 1, **config: str) -> TopicCreated:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return TopicCreated(Topic(name, topic_id, partitions, config=settings), (ONE,) * partitions)


def names(store: MetadataStore) -> list[str]:
    return [topic.name for topic in store.image.topics()]


def guard_on(store: MetadataStore, key: str) -> Guard:
    return Guard(key, store.image.revision_of(key))


async def test_a_commit_returns_its_revision_and_the_image_has_it(store: MetadataStore) -> None:
    before = store.image.revision
    first = await store.commit([created("a", A, 2, retention_ms="5")])
    second = await store.commit([ProducerIdsReserved(1000)])
    assert before < first < second == store.image.revision
    topic = store.image.topic("a")
    assert topic is not None
    assert (topic.partition_count, dict(topic.config)) == (2, {"retention.ms": "5"})
    assert [one.partition_epoch for one in store.image.assignments(A)] == [first, first]
    assert store.image.revision_of(topic_key("a")) == store.image.revision_of(settings_key(A)) == first
    assert store.image.revision_of(PRODUCER_IDS) == second


async def test_altered_defaults_need_their_level_and_are_there_after_a_restart(engine: Engine) -> None:
    store = await engine.open()
    with pytest.raises(UnsupportedFeatureLevel):
        await store.commit([BrokerDefaultsChanged({"log.retention_ms": "5"})])
    await store.commit([FeatureFinalised(METADATA_VERSION, 2), BrokerDefaultsChanged({"log.retention_ms": "5"})])
    await store.commit([BrokerDefaultsChanged({"log.retention_ms": "6", "log.segment_bytes": "2048"})])
    expected = {"log.retention_ms": "6", "log.segment_bytes": "2048"}
    assert store.image.broker_defaults == expected
    assert (await engine.open()).image.broker_defaults == expected


async def test_settings_of_groups_need_their_level_and_are_there_after_a_restart(engine: Engine) -> None:
    store = await engine.open()
    settings = GroupSettings(session_timeout_ms=6_000, start="latest", policy={"ttl_ms": 5, "lane_weights": [5, 1]})
    with pytest.raises(UnsupportedFeatureLevel, match="level 3"):
        await store.commit([GroupSettingsChanged("a/b", settings)])
    await store.commit([FeatureFinalised(METADATA_VERSION, 3), GroupSettingsChanged("a/b", GroupSettings())])
    assert store.image.group_settings == {"a/b": GroupSettings()}
    first = await store.commit([GroupSettingsChanged("a/b", settings), GroupSettingsChanged("c", settings)])
    key = group_settings_key("a/b")
    assert store.image.revision_of(key) == first

    again = await engine.open()
    assert again.image.group_settings == {"a/b": settings, "c": settings}
    assert again.image.revision_of(key) == first
    await again.commit([GroupSettingsChanged("a/b", None)], [Guard(key, first)])
    with pytest.raises(GuardFailed):
        await again.commit([GroupSettingsChanged("a/b", settings)], [Guard(key, first)])
    assert (again.image.group_settings, again.image.revision_of(key)) == ({"c": settings}, ABSENT)
    assert (await engine.open()).image.group_settings == {"c": settings}


async def test_a_topic_and_its_assignments_change_apart(store: MetadataStore) -> None:
    first = await store.commit([created("a", A, 3)])
    led = Assignment(leader=2, leader_epoch=1, replicas=(1, 2), isr=(2,))
    second = await store.commit([AssignmentsChanged("a", A, {1: led})], [Guard(partition_key(A, 1), first)])
    assert store.image.revision_of(topic_key("a")) == first
    assert [one.partition_epoch for one in store.image.assignments(A)] == [first, second, first]
    assert [(one.leader, one.leader_epoch, one.isr) for one in store.image.assignments(A)] == [
        (1, 0, (1,)),
        (2, 1, (2,)),
        (1, 0, (1,)),
    ]
    with pytest.raises(GuardFailed):
        await store.commit([AssignmentsChanged("a", A, {1: ONE})], [Guard(partition_key(A, 1), first)])


async def test_a_guard_that_does_not_hold_refuses_the_whole_commit(store: MetadataStore) -> None:
    await store.commit([created("a", A)])
    stale = guard_on(store, settings_key(A))
    await store.commit([TopicConfigChanged("a", A, {"retention.ms": "1"})], [stale])
    with pytest.raises(GuardFailed, match="/s/"):
        await store.commit([TopicConfigChanged("a", A, {"retention.ms": "2"}), created("b", B)], [stale])
    with pytest.raises(GuardFailed):
        await store.commit([created("b", B)], [Guard(topic_key("a"), ABSENT)])
    assert names(store) == ["a"]
    topic = store.image.topic("a")
    assert topic is not None
    assert topic.config == {"retention.ms": "1"}


async def test_of_many_commits_under_one_guard_one_is_made_and_nobody_else_is_lost(store: MetadataStore) -> None:
    guard = guard_on(store, PRODUCER_IDS)
    blocks = [store.commit([ProducerIdsReserved(1000 + number)], [guard]) for number in range(20)]
    outcomes = await asyncio.gather(*blocks, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["GuardFailed"] * 19 + ["int"]


async def test_whoever_is_refused_finds_the_reason_in_the_image(store: MetadataStore) -> None:
    """Also while the transaction in the way is still on its way to the disk: a second try must not spin."""
    guard = guard_on(store, PRODUCER_IDS)

    async def refused() -> int:
        with pytest.raises(GuardFailed):
            await store.commit([ProducerIdsReserved(5000)], [guard])
        return store.image.revision_of(PRODUCER_IDS)

    async def second(name: str) -> bool:
        with pytest.raises(TopicExists):
            await store.commit([created(name, B)])
        return store.image.topic(name) is not None

    revision, seen, *_ = await asyncio.gather(store.commit([ProducerIdsReserved(1000)], [guard]), refused())
    assert seen == revision
    _, is_there = await asyncio.gather(store.commit([created("a", A)]), second("a"))
    assert is_there


async def test_a_contradiction_is_refused_with_its_own_error(store: MetadataStore) -> None:
    await store.commit([created("a", A)])
    await store.commit([ProducerIdsReserved(1000)])
    refused: list[tuple[Event, type[Exception]]] = [
        (created("a", B), TopicExists),
        (created("b", A), Conflict),
        (TopicDeleted("a", B), TopicNotFound),
        (TopicConfigChanged("b", B, {}), TopicNotFound),
        (PartitionsAdded("a", A, 2, (ONE,)), Conflict),
        (ProducerIdsReserved(1000), Conflict),
    ]
    for event, error in refused:
        with pytest.raises(error):
            await store.commit([created("c", UUID(int=9)), event])
        assert names(store) == ["a"]


async def test_listeners_get_one_delta_per_transaction_in_order(store: MetadataStore) -> None:
    heard: list[tuple[Delta, list[str]]] = []
    store.subscribe(lambda delta: heard.append((delta, names(store))))
    first = await store.commit([created("a", A), created("b", B)])
    second = await store.commit([TopicDeleted("a", A), ProducerIdsReserved(1000)])
    third = await store.commit([DeletionFinished(A), TopicConfigChanged("b", B, {"retention.ms": "1"})])
    assert [(delta.revision, at_that_time) for delta, at_that_time in heard] == [
        (first, ["a", "b"]),
        (second, ["b"]),
        (third, ["b"]),
    ]
    kinds = [sorted(type(event).__name__ for event in delta.events) for delta, _ in heard]
    assert kinds == [
        ["TopicCreated", "TopicCreated"],
        ["ProducerIdsReserved", "TopicDeleted"],
        ["DeletionFinished", "TopicConfigChanged"],
    ]


async def test_a_watch_has_every_delta_after_its_revision_and_goes_on(store: MetadataStore) -> None:
    await store.commit([created("a", A)])
    after = store.image.revision
    revisions = [await store.commit([ProducerIdsReserved(number)]) for number in (1, 2)]
    watched = store.watch(after)
    assert [(await anext(watched)).revision for _ in range(2)] == revisions
    coming = asyncio.ensure_future(anext(watched))
    await asyncio.sleep(0)
    assert not coming.done()
    revision = await store.commit([ProducerIdsReserved(3)])
    assert (await coming).revision == revision
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await anext(watched)


async def test_a_watch_that_is_too_far_behind_is_told_so(store: MetadataStore) -> None:
    after = store.image.revision
    for number in range(1, HISTORY_MAX + 2):
        await store.commit([ProducerIdsReserved(number)])
    with pytest.raises(RevisionCompacted):
        await anext(store.watch(after))


async def test_a_topic_made_again_under_its_name_does_not_answer_to_the_guards_of_the_former(
    store: MetadataStore,
) -> None:
    await store.commit([created("a", A)])
    guards = [guard_on(store, topic_key("a")), guard_on(store, settings_key(A)), guard_on(store, partition_key(A, 0))]
    await store.commit([TopicDeleted("a", A)])
    await store.commit([created("a", B)])
    for guard in guards:
        with pytest.raises(GuardFailed):
            await store.commit([ProducerIdsReserved(7)], [guard])


async def test_a_store_opened_again_has_the_same_image_and_later_revisions(engine: Engine) -> None:
    store = await engine.open()
    await store.commit([created("a", A, 3, retention_ms="5"), ProducerIdsReserved(1000)])
    await store.commit([PartitionsAdded("a", A, 3, (ONE,)), created("b", B)])
    last = await store.commit([TopicDeleted("b", B)])
    again = await engine.open()
    assert again.cluster_id == store.cluster_id
    topic = again.image.topic("a")
    assert topic is not None
    assert (topic.partition_count, dict(topic.config), names(again)) == (4, {"retention.ms": "5"}, ["a"])
    assert again.image.deletions() == {B: "b"}
    assert again.image.next_producer_id == 1000
    assert again.image.revision >= last
    guards = [guard_on(again, key) for key in (PRODUCER_IDS, topic_key("a"), settings_key(A), partition_key(A, 3))]
    assert await again.commit([ProducerIdsReserved(2000)], guards) > last


async def test_a_closed_store_takes_nothing(store: MetadataStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(ShuttingDown):
        await store.commit([created("a", A)])


async def test_a_new_kind_of_value_is_written_only_once_its_level_is_finalised(engine: Engine) -> None:
    store = await engine.open()
    await store.commit([created("a", A, 2)])
    moving = Assignment(leader=1, leader_epoch=1, replicas=(1, 2), isr=(1,), eligible=(2,), adding=(3,), removing=(2,))
    with pytest.raises(UnsupportedFeatureLevel, match="from level 1"):
        await store.commit([AssignmentsChanged("a", A, {1: moving})])
    await store.commit([FeatureFinalised(METADATA_VERSION, 1)])
    await store.commit([AssignmentsChanged("a", A, {1: moving})])
    again = await engine.open()
    assert again.image.feature_levels() == {METADATA_VERSION: 1}
    assert structs.replace(again.image.assignments(A)[1], partition_epoch=0) == moving
    assert again.image.assignments(A)[0].eligible == ()


async def test_a_level_does_not_go_back_and_an_unknown_one_is_not_finalised(store: MetadataStore) -> None:
    await store.commit([FeatureFinalised(METADATA_VERSION, 1)])
    with pytest.raises(Conflict, match="cannot be lowered"):
        await store.commit([FeatureFinalised(METADATA_VERSION, 1)])
    for name, level in ((METADATA_VERSION, 99), ("teleport.version", 1)):
        with pytest.raises(UnsupportedFeatureLevel, match=f"level {level}"):
            await store.commit([FeatureFinalised(name, level)])
