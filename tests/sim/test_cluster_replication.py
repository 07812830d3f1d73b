"""Replication in a simulated cluster: whatever goes wrong, what was acknowledged with acks=all is there.

One seed decides everything. `make sim SEEDS=n` tries n of them. The mutants test this test: each takes away one
rule that the design needs, and must be found within a few seeds.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from tests.sim.cluster_stories import HeldAssignment

from goqueue.cluster.isr import IsrChanges
from goqueue.cluster.replication import leader_stream
from goqueue.cluster.replication.messages import Status, Subscribe
from goqueue.cluster.replication.reconciliation import Verdict
from goqueue.cluster.replication.replica_log import ReplicaLog
from goqueue.cluster.replication.term import LogTerm, PartitionTerm
from goqueue.cluster.replication.terms import LedPartition
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import PeerUnreachable
from goqueue.metadata.events import Assignment
from goqueue.metadata.shared.kv import Compare, KvAmbiguous, TxnResult, Write
from goqueue.metadata.store import Guard, SessionGuard
from goqueue.records import NewRecord, TopicPartition
from goqueue.testing.cluster.checks import settle
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.cluster.fault_profiles import BLACKOUTS, MIXED, ROT, UNSURE, Profile
from goqueue.testing.cluster.run import run_cluster
from goqueue.testing.disk import Survival

SEEDS = int(os.environ.get("SEEDS", "6"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A run logs thousands of lines about faults that were asked for."""
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


# Seeds that found something once: a follower joined the ISR with acknowledged bytes that it had not synced.
FOUND = ((65, UNSURE), (93, MIXED))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_acknowledged_is_there_once_and_in_order_on_every_replica(seed: int) -> None:
    outcome = run_cluster(seed)
    # Most nodes may be down most of the time.
    assert outcome.acknowledged > 0, "the run tried too little to prove anything"
    assert sum(outcome.faults.values()) > 5


@pytest.mark.parametrize(("seed", "profile"), FOUND, ids=["unsure", "mixed"])
def test_what_was_found_once_is_mended(seed: int, profile: Profile) -> None:
    assert run_cluster(seed, profile=profile).acknowledged > 5


@pytest.mark.parametrize("seed", range(max(SEEDS // 6, 1)))
def test_files_that_rot_on_one_node_after_the_other_are_repaired(seed: int) -> None:
    outcome = run_cluster(seed, profile=ROT)
    assert outcome.faults.get("rot", 0) > 0


@pytest.mark.parametrize("seed", range(max(SEEDS // 6, 1)))
def test_power_cuts_of_all_machines_at_once_cost_nothing(seed: int) -> None:
    outcome = run_cluster(seed, profile=BLACKOUTS)
    assert outcome.faults.get("blackout", 0) > 0


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_cluster(3, seconds=5) == run_cluster(3, seconds=5)


# --- mutants ----------------------------------------------------------------------------------


def truncation_by_high_watermark(patch: pytest.MonkeyPatch) -> None:
    subscribe = ReplicaLog.subscribe

    def cut_first(self: ReplicaLog, subscription: int, broker_epoch: int) -> Subscribe:
        self.log.truncate_to(self.log.high_watermark)
        return subscribe(self, subscription, broker_epoch)

    patch.setattr(ReplicaLog, "subscribe", cut_first)


def acknowledged_before_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogTerm, "safe_by", LogTerm.written_by)


def logs_not_matched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_stream, "judge", lambda log, _end, last, _gone: Verdict(Status.OK, last, log.end_offset))


def in_sync_replicas_without_union(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionTerm, "propose", lambda _term, _isr: None)


def no_session_of_the_follower_in_the_guard(patch: pytest.MonkeyPatch) -> None:
    guards = IsrChanges._guards

    def without(
        self: IsrChanges, led: LedPartition, changed: Assignment, _added: tuple[int, ...]
    ) -> list[Guard | SessionGuard]:
        return guards(self, led, changed, ())

    patch.setattr(IsrChanges, "_guards", without)


Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    ("mutant", "profile", "seeds"),
    [
        (truncation_by_high_watermark, MIXED, (3, 4, 6)),
        (logs_not_matched, MIXED, (0, 2)),
    ],
)
def test_a_cluster_without_one_of_its_rules_is_found_out(
    mutant: Mutant, profile: Profile, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(_fails(seed, profile) for seed in seeds), f"{mutant.__name__} was not found"


def _fails(seed: int, profile: Profile) -> bool:
    try:
        run_cluster(seed, profile=profile)
    except Exception:  # noqa: BLE001 - whatever shows it
        return True
    return False


async def produce(cluster: SimCluster, sequence: int) -> None:
    """Store a record with acks=all, at the first leader of partition 0."""
    now_ms = cluster.clock.now_ms()
    records = [NewRecord(None, b"%d" % sequence)]
    batch = encode_batch(records, producer_id=1, producer_epoch=0, base_sequence=sequence, now_ms=now_ms)
    await cluster.request(1, lambda node: node.produce(TopicPartition(TOPIC, 0), batch, None))


def lost_disk_while_joining(cluster: SimCluster) -> None:
    """A follower has caught up, and loses its disk while the write that lets it in is on its way."""

    async def story() -> None:
        await produce(cluster, 0)
        cluster.kill(3)
        await cluster.controller.end_session(3)
        await produce(cluster, 1)
        assignment = HeldAssignment(cluster, 1)
        await cluster.start(3)
        await assignment.is_sent()
        cluster.cut_power(3, Survival.NOTHING)
        cluster.wipe(3)
        await cluster.controller.empty(3)
        await cluster.controller.begin_session(3)
        assignment.let_go()
        await asyncio.sleep(1)
        assert 3 not in cluster.metadata.image.assignments(cluster.topic_id)[0].isr, "its disk is empty"

    cluster.run(story())


def test_a_follower_that_lost_its_disk_while_it_joined_is_not_in_sync() -> None:
    lost_disk_while_joining(SimCluster(1))


def test_without_the_session_of_the_follower_in_the_guard_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    no_session_of_the_follower_in_the_guard(monkeypatch)
    with pytest.raises(AssertionError, match="its disk is empty"):
        lost_disk_while_joining(SimCluster(1))


def power_cut_of_all(cluster: SimCluster) -> None:
    """Every node loses what it has not synced, right after a write was acknowledged."""

    async def story() -> None:
        while True:
            # Now and then an answer is lost; the batch is then sent again.
            with suppress(PeerUnreachable):
                await produce(cluster, 0)
                break
        for node in cluster.slots:
            cluster.cut_power(node, Survival.NOTHING)
        for node in cluster.slots:
            await cluster.start(node)
        await settle(cluster)
        first = cluster.slots[1].node
        assert first is not None
        assert first.partitions.replica(TOPIC, 0).log.end_offset == 1, "it was acknowledged"

    cluster.run(story())


def power_cuts() -> None:
    for seed in range(8):
        power_cut_of_all(SimCluster(seed))


def test_a_power_cut_of_all_nodes_costs_nothing_that_was_acknowledged() -> None:
    power_cuts()


def test_if_writes_were_acknowledged_before_they_are_synced_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledged_before_synced(monkeypatch)
    with pytest.raises(AssertionError, match="it was acknowledged"):
        power_cuts()


def change_of_unknown_outcome(cluster: SimCluster) -> None:
    """A follower is let in, its leader does not learn of it, and what it writes from then on does not reach it."""

    async def story() -> None:
        await produce(cluster, 0)
        cluster.kill(3)
        await cluster.controller.end_session(3)
        await produce(cluster, 1)
        kv = cluster.slots[1].kv
        assert kv is not None
        is_made, txn = asyncio.Event(), kv.txn

        async def unanswered(compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
            if any("/p/" in write.key for write in writes):
                # From before the write on, so that the watch does not tell of it either.
                kv.is_cut_off = True
                await kv._kv.txn(compares, writes)
                is_made.set()
                raise KvAmbiguous("the reply was lost")
            return await txn(compares, writes)

        kv.txn = unanswered  # type: ignore[method-assign]
        await cluster.start(3)
        await asyncio.wait_for(is_made.wait(), 60)
        cluster.network.block(1, 3)
        with pytest.raises(PeerUnreachable):
            await produce(cluster, 2)

    cluster.run(story())


def test_while_it_is_not_known_whether_a_follower_joined_its_copy_is_waited_for() -> None:
    change_of_unknown_outcome(SimCluster(1))


def test_without_the_union_it_would_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    in_sync_replicas_without_union(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        change_of_unknown_outcome(SimCluster(1))
