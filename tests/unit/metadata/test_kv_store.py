"""The engine over a shared store: two nodes, staged creations, lost sessions, compactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random
from typing import Any
from uuid import UUID

import grpc
import pytest
from msgspec import structs

from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.errors import (
    GuardFailed,
    InvalidRequest,
    MetadataUnavailable,
    ShuttingDown,
    TopicExists,
    UnsupportedFeatureLevel,
)
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    DeletionFinished,
    Delta,
    FeatureFinalised,
    PartitionsAdded,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.features import METADATA_VERSION
from goqueue.metadata.keys import PRODUCER_IDS, partition_key
from goqueue.metadata.shared.etcd.connection import meaning
from goqueue.metadata.shared.kv import (
    Compare,
    KvAmbiguous,
    KvCompacted,
    KvDelta,
    KvUnavailable,
    Put,
    Range,
    TxnResult,
    Write,
)
from goqueue.metadata.shared.kv_staging import Staging
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard, SessionGuard
from goqueue.testing.kv_model import KvClient, KvFaults, KvModel

ONE = Assignment(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
A, B = UUID(int=1), UUID(int=2)


class Cluster:
    def __init__(self) -> None:
        self.model = KvModel()
        self.stores: list[KvMetadata] = []

    async def join(self, client: KvClient | None = None, lease: int = 0) -> KvMetadata:
        rng = Random(len(self.stores))
        store = await KvMetadata.open(client or self.model.client(), prefix="/goqueue", rng=rng, lease=lease)
        self.stores.append(store)
        return store


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    for store in cluster.stores:
        await store.close()


def created(name: str, topic_id: UUID, partitions: int = 1) -> TopicCreated:
    return TopicCreated(Topic(name, topic_id, partitions), (ONE,) * partitions)


async def test_two_nodes_never_get_the_same_block_of_producer_ids(cluster: Cluster) -> None:
    """Blocks were taken without a compare: both nodes read the same counter and gave out the same ids."""
    first, second = ProducerIds(await cluster.join(), block_size=10), ProducerIds(await cluster.join(), block_size=10)
    given = await asyncio.gather(*(ids.allocate() for _ in range(95) for ids in (first, second)))
    assert len(set(given)) == 190


async def test_both_nodes_see_the_same_cluster_and_each_others_changes(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    assert first.cluster_id == second.cluster_id != ""
    heard: list[Delta] = []
    second.subscribe(heard.append)
    revision = await first.commit([created("a", A, 2), ProducerIdsReserved(10)])
    await second.catch_up()
    assert [delta.revision for delta in heard] == [revision]
    assert second.image.topic("a") == first.image.topic("a")
    assert second.image.assignments(A) == first.image.assignments(A)
    with pytest.raises(TopicExists):
        await second.commit([created("a", B)])


async def test_many_who_want_to_catch_up_at_once_cost_two_transactions(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    transact, sent = second.transact, 0

    async def counted(*asked: Any) -> TxnResult:
        nonlocal sent
        sent += 1
        return await transact(*asked)

    second.transact = counted  # type: ignore[method-assign]
    early = [asyncio.ensure_future(second.catch_up()) for _ in range(50)]
    while not sent:  # noqa: ASYNC110 - the transaction is begun by a task of the store
        await asyncio.sleep(0)
    await first.commit([created("a", A)])
    # One is under way that may have been sent before the topic was made: these need another.
    await asyncio.gather(*(second.catch_up() for _ in range(50)))
    assert second.image.topic("a") is not None
    await asyncio.gather(*early)
    assert sent == 2
    await second.catch_up()
    assert sent == 3


async def test_an_assignment_keeps_all_its_fields(cluster: Cluster) -> None:
    first = await cluster.join()
    await first.commit([created("a", A), FeatureFinalised(METADATA_VERSION, 1)])
    full = Assignment(2, 5, (1, 2, 3), (2,), eligible=(3,), adding=(4,), removing=(1,))
    revision = await first.commit([AssignmentsChanged("a", A, {0: full})])
    assert (await cluster.join()).image.assignments(A) == (structs.replace(full, partition_epoch=revision),)


async def test_a_refusal_by_an_image_that_is_behind_is_not_believed(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    await first.commit([created("a", A)])
    await second.catch_up()
    # No pause in between: the second node has not heard of the deletion when it creates the topic anew.
    deletion = asyncio.ensure_future(first.commit([TopicDeleted("a", A)]))
    for _ in range(20):
        if "/goqueue/t/a" not in cluster.model.pairs:
            break
        await asyncio.sleep(0)
    assert second.image.topic("a") is not None
    await second.commit([created("a", B)])
    await deletion
    assert second.image.deletions() == {A: "a"}


async def test_a_creation_larger_than_a_transaction_is_staged_and_becomes_visible_at_once(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    seen: list[list[tuple[str, int]]] = []
    second.subscribe(
        lambda delta: seen.append(
            [
                (type(event).__name__, len(event.assignments))
                for event in delta.events
                if isinstance(event, TopicCreated | PartitionsAdded)
            ]
        )
    )
    await first.commit([created("a", A, 1000)])
    await first.commit([PartitionsAdded("a", A, 1000, (ONE,) * 500)])
    await second.catch_up()
    assert seen == [[("TopicCreated", 1000)], [("PartitionsAdded", 500)]]
    assert len(second.image.assignments(A)) == 1500
    assert not [key for key in cluster.model.pairs if "/stage/" in key]
    third = await cluster.join()
    assert third.image.assignments(A) == second.image.assignments(A) == first.image.assignments(A)
    await third.commit([AssignmentsChanged("a", A, {1499: structs.replace(ONE, leader_epoch=3)})])
    await third.commit([TopicDeleted("a", A)])
    await third.commit([DeletionFinished(A)])
    assert not [key for key in cluster.model.pairs if str(A) in key]


async def test_of_two_large_creations_of_a_name_one_wins_whole(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    outcomes = await asyncio.gather(
        first.commit([created("a", A, 300)]), second.commit([created("a", B, 400)]), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["TopicExists", "int"]
    topic = first.image.topic("a")
    assert topic is not None
    assert len(first.image.assignments(topic.topic_id)) == topic.partition_count


async def test_partitions_added_by_two_nodes_at_once_are_those_of_one_of_them(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    await first.commit([created("a", A)])
    await second.catch_up()
    mine, theirs = structs.replace(ONE, leader=7), structs.replace(ONE, leader=8)
    outcomes = await asyncio.gather(
        first.commit([PartitionsAdded("a", A, 1, (mine,) * 400)]),
        second.commit([PartitionsAdded("a", A, 1, (theirs,) * 400)]),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "int"]
    await asyncio.gather(first.catch_up(), second.catch_up())
    winner = 7 if isinstance(outcomes[0], int) else 8
    for store in (first, second):
        assert {one.leader for one in store.image.assignments(A)[1:]} == {winner}


def staged_keys(cluster: Cluster, topic_id: UUID) -> list[str]:
    begins = (f"/goqueue/p/{topic_id}-", f"/goqueue/stage/{topic_id}")
    return [key for key in cluster.model.pairs if key.startswith(begins)]


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come to that")


async def crash_while_staging(cluster: Cluster, event: TopicCreated | PartitionsAdded, last: int) -> int:
    """A node that dies after it has staged that partition; returns its lease, which is still to end."""
    topic_id = event.topic.topic_id if isinstance(event, TopicCreated) else event.topic_id
    lease = cluster.model.grant()
    dying = await cluster.join(lease=lease)
    task = asyncio.ensure_future(dying.commit([event]))
    await until(lambda: f"/goqueue/p/{topic_id}-{last}" in cluster.model.pairs)
    for life in (dying._sweeping, task, dying._following):
        assert life is not None
        life.cancel()
        await asyncio.wait([life])
    return lease


async def test_what_the_loser_of_two_large_creations_has_staged_is_removed(cluster: Cluster) -> None:
    first, second = await cluster.join(), await cluster.join()
    await asyncio.gather(
        first.commit([created("a", A, 300)]), second.commit([created("a", B, 400)]), return_exceptions=True
    )
    topic = first.image.topic("a")
    assert topic is not None
    await until(lambda: not staged_keys(cluster, B if topic.topic_id == A else A))
    assert len(staged_keys(cluster, topic.topic_id)) == topic.partition_count


async def test_what_a_cancelled_creation_has_staged_is_removed(cluster: Cluster) -> None:
    store = await cluster.join()
    task = asyncio.ensure_future(store.commit([created("a", A, 1000)]))
    await until(lambda: f"/goqueue/p/{A}-200" in cluster.model.pairs)
    task.cancel()
    await until(lambda: not staged_keys(cluster, A))
    await store.commit([created("a", A, 1000)])
    assert len(store.image.assignments(A)) == 1000


async def test_what_a_cancelled_creation_has_staged_is_removed_although_the_first_try_fails_as_nobody_foresaw(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.metadata.shared.kv_staging._RETRY_S", 0)
    sweep, failed = Staging._sweep, list[str]()

    async def failing(self: Staging, stage: str, revision: int) -> bool:
        if not failed:
            failed.append(stage)
            raise ValueError("nobody foresaw this")
        return await sweep(self, stage, revision)

    monkeypatch.setattr(Staging, "_sweep", failing)
    store = await cluster.join()
    task = asyncio.ensure_future(store.commit([created("a", A, 1000)]))
    await until(lambda: f"/goqueue/p/{A}-200" in cluster.model.pairs)
    task.cancel()
    await until(lambda: not staged_keys(cluster, A))
    assert failed


async def test_what_a_crashed_node_has_staged_is_removed_once_its_session_has_ended(cluster: Cluster) -> None:
    survivor = await cluster.join()
    await survivor.commit([created("b", B)])
    creating = await crash_while_staging(cluster, created("a", A, 1000), 200)
    adding = await crash_while_staging(cluster, PartitionsAdded("b", B, 1, (ONE,) * 1000), 200)
    await survivor.catch_up()
    # They may only be slow.
    assert len(staged_keys(cluster, A)) > 200
    assert len(staged_keys(cluster, B)) > 200
    for lease in (creating, adding):
        cluster.model.end_lease(lease)
    await until(lambda: not staged_keys(cluster, A))
    await until(lambda: staged_keys(cluster, B) == [f"/goqueue/p/{B}-0"])
    assert len(survivor.image.assignments(B)) == 1


async def test_what_the_last_node_has_staged_is_removed_by_the_next_that_starts(cluster: Cluster) -> None:
    cluster.model.end_lease(await crash_while_staging(cluster, created("a", A, 1000), 200))
    await cluster.join()
    await until(lambda: not staged_keys(cluster, A))


async def test_partitions_staged_by_a_former_holder_beyond_those_that_are_added_are_removed(cluster: Cluster) -> None:
    first = await cluster.join()
    await first.commit([created("a", A)])
    # Its session lives on, so nobody sweeps for it; but another node takes its stage over.
    await crash_while_staging(cluster, PartitionsAdded("a", A, 1, (ONE,) * 1000), 300)
    await first.commit([PartitionsAdded("a", A, 1, (ONE,) * 200)])
    assert len(staged_keys(cluster, A)) == len(first.image.assignments(A)) == 201


async def test_any_other_change_that_is_too_large_is_refused(cluster: Cluster) -> None:
    store = await cluster.join()
    await store.commit([created("a", A, 300)])
    with pytest.raises(InvalidRequest, match="larger than a transaction"):
        await store.commit([AssignmentsChanged("a", A, dict.fromkeys(range(300), ONE))])


async def test_a_node_whose_session_has_ended_changes_nothing(cluster: Cluster) -> None:
    lease = cluster.model.grant()
    store = await cluster.join(lease=lease)
    await store.commit([created("a", A)])
    cluster.model.end_lease(lease)
    for _ in range(9):
        with pytest.raises(MetadataUnavailable, match="session"):
            await store.commit([created("b", B)])
    await (await cluster.join()).catch_up()
    await asyncio.sleep(0)
    # It still hears of others' changes, but makes none.
    assert "session" in str(store.problem())
    assert "/goqueue/t/b" not in cluster.model.pairs


class Interrupted(KvClient):
    """A store that ends its watches and does not answer for a while."""

    is_down = False

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[KvDelta]:
        changes = super().watch(prefix, from_revision)
        following = asyncio.ensure_future(anext(changes))
        while not self.is_down:
            if (await asyncio.wait([following], timeout=0.01))[0]:
                yield following.result()
                following = asyncio.ensure_future(anext(changes))
        following.cancel()
        raise KvUnavailable("the server is gone")

    async def range(self, prefix: str) -> Range:
        if self.is_down:
            raise KvUnavailable("the server is gone")
        return await super().range(prefix)


async def test_a_store_that_answers_again_is_no_problem_although_nothing_is_changed(cluster: Cluster) -> None:
    """Otherwise a node of an idle cluster would not be ready again."""
    client = Interrupted(cluster.model, Random(0), KvFaults())
    store = await cluster.join(client)
    client.is_down = True
    await eventually(lambda: "does not answer" in str(store.problem()))
    client.is_down = False
    await eventually(lambda: store.problem() is None)
    await (await cluster.join()).commit([created("t", A)])
    await eventually(lambda: store.image.topic("t") is not None)


class Unreadable(KvClient):
    """A store that ends its watches, and answers what nobody foresaw when it is asked again."""

    ends: Exception | None = None

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[KvDelta]:
        async for delta in super().watch(prefix, from_revision):
            if self.ends is not None:
                raise self.ends
            yield delta

    async def range(self, prefix: str) -> Range:
        if self.ends is not None:
            raise ValueError("nobody foresaw this")
        return await super().range(prefix)


@pytest.mark.parametrize("ends", [KvCompacted("revision 2 is compacted"), KvUnavailable("the server is gone")])
async def test_who_waits_is_told_also_if_it_fails_while_it_looks_again(cluster: Cluster, ends: Exception) -> None:
    """Behind a compaction, or an interruption: the watch ended in silence, and whoever waited did so for ever."""
    client = Unreadable(cluster.model, Random(0), KvFaults())
    store = await cluster.join(client)
    client.ends = ends
    with pytest.raises(MetadataUnavailable, match=r"cannot be followed: .*nobody foresaw this"):
        await asyncio.wait_for(store.catch_up(), 5)
    assert "nobody foresaw this" in str(store.problem())


class Full(KvClient):
    """A store whose database has reached its quota for a while: it refuses writes, and answers everything else."""

    is_full = False
    # What nobody foresaw, next time.
    error: Exception | None = None

    async def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        error, self.error = self.error, None
        if error is not None:
            raise error
        if self.is_full:
            raise KvAmbiguous("etcdserver: mvcc: database space exceeded")
        return await super().txn(compares, writes)


class Filled(KvClient):
    """A store that the next change takes over its quota: etcd makes that change, and answers that it has no room."""

    fills_up = False

    async def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        result = await super().txn(compares, writes)
        if self.fills_up:
            self.fills_up = False
            raise meaning(grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
        return result


async def test_the_change_that_fills_the_store_is_known_to_be_made_and_its_node_goes_on_writing(
    cluster: Cluster,
) -> None:
    """It was sent once more, met its own write, and the node took its session for ended until it began another."""
    client = Filled(cluster.model, Random(0), KvFaults())
    store = await cluster.join(client)
    client.fills_up = True
    await store.commit([created("t", A)])
    assert store.image.topic("t") is not None
    await store.commit([created("u", B)])


async def test_a_store_that_takes_changes_again_is_no_problem_although_nothing_is_changed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.metadata.shared.kv_lane.ATTEMPTS_MAX", 2)
    monkeypatch.setattr("goqueue.metadata.shared.kv_store.REFUSED_RETRY_S", 0.01)
    client = Full(cluster.model, Random(0), KvFaults())
    store = await cluster.join(client)
    client.is_full = True
    with pytest.raises(MetadataUnavailable, match="database space exceeded"):
        await store.commit([created("t", A)])
    for _ in range(10):
        assert "database space exceeded" in str(store.problem())
        await asyncio.sleep(0.01)
    client.error = ValueError("nobody foresaw this")
    await eventually(lambda: client.error is None)
    client.is_full = False
    await eventually(lambda: store.problem() is None)
    client.is_full = True
    with pytest.raises(MetadataUnavailable):
        await store.commit([created("t", A)])
    assert store.problem() is not None, "the second time as the first"


async def eventually(is_so: Callable[[], bool]) -> None:
    for _ in range(500):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be")


async def test_a_node_with_a_new_session_does_not_report_the_end_of_the_one_before(cluster: Cluster) -> None:
    """Nothing may have to be changed for a long time, and until then the node would not be ready."""
    client = cluster.model.client()
    lease = await client.grant(6_000)
    store = await cluster.join(client, lease)
    await client.revoke(lease)
    with pytest.raises(MetadataUnavailable):
        await store.commit([created("t", A)])
    assert "session" in str(store.problem())
    store.use_lease(await client.grant(6_000))
    assert store.problem() is None
    await store.commit([created("t", A)])


async def test_a_guard_on_a_session_outlasts_changes_of_its_key_and_not_its_end(cluster: Cluster) -> None:
    """The epoch of a controller or a broker is the revision at which its session's key was created."""
    store = await cluster.join()
    epoch = cluster.model.txn([], [Put("/goqueue/ctl", b"1")]).revision
    cluster.model.txn([], [Put("/goqueue/ctl", b"1")])
    guard = SessionGuard("/ctl", epoch)
    await store.commit([created("a", A)], [guard])
    cluster.model.pairs.pop("/goqueue/ctl")
    cluster.model.txn([], [Put("/goqueue/ctl", b"2")])
    with pytest.raises(GuardFailed, match="/ctl"):
        await store.commit([created("b", B)], [guard])


async def test_behind_a_compaction_the_difference_comes_as_one_delta(cluster: Cluster) -> None:
    behind = await cluster.join()
    await behind.commit([created("a", A), created("b", B)])
    other = await cluster.join()
    heard: list[Delta] = []
    behind.subscribe(heard.append)
    # The watch is held up, misses three transactions, and finds the first of them compacted.
    task = behind._following
    assert task is not None
    task.cancel()
    await asyncio.wait([task])
    await other.commit([TopicDeleted("a", A), TopicConfigChanged("b", B, {"retention.ms": "1"})])
    await other.commit([DeletionFinished(A), created("c", UUID(int=3), 2)])
    last = await other.commit([ProducerIdsReserved(9)], [Guard(PRODUCER_IDS, 0)])
    cluster.model.compact(last - 1)
    behind._following = asyncio.create_task(behind._follow())
    await behind.catch_up()
    assert sorted(type(event).__name__ for event in heard[0].events) == [
        "DeletionFinished",
        "ProducerIdsReserved",
        "TopicConfigChanged",
        "TopicCreated",
        "TopicDeleted",
    ]
    assert behind.image.topics() == other.image.topics()
    assert behind.image.deletions() == {}
    for key in (PRODUCER_IDS, partition_key(UUID(int=3), 1)):
        assert behind.image.revision_of(key) == other.image.revision_of(key)


async def test_a_running_node_that_meets_a_level_it_does_not_know_says_so_and_changes_nothing(
    cluster: Cluster,
) -> None:
    store = await cluster.join()
    cluster.model.txn([], [Put("/goqueue/f/metadata.version", b"99")])
    with pytest.raises(MetadataUnavailable, match="level 99"):
        await store.catch_up()
    with pytest.raises(MetadataUnavailable, match="level 99"):
        await store.commit([created("a", A)])
    assert "level 99" in str(store.problem())
    with pytest.raises(UnsupportedFeatureLevel):
        await cluster.join()


async def test_a_commit_that_waits_when_the_store_is_closed_is_told_so(cluster: Cluster) -> None:
    store = await cluster.join()
    task = store._following
    assert task is not None
    task.cancel()
    await asyncio.wait([task])
    waiting = asyncio.ensure_future(store.commit([created("a", A)]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    await store.close()
    with pytest.raises(ShuttingDown):
        await waiting
    with pytest.raises(ShuttingDown):
        await store.catch_up()
