"""Single rules of replication, each in a story that would go wrong without it: the second test of each pair shows that.

The random runs of `test_cluster_replication` do not find these mutants, because other rules stand behind each of them:
frames must continue the log, a replica outside the ISR joins only with what it synced, and a repeat is judged by the
delay log.
The session check of `LeaderStream.counts` has no story: a follower's new session closes its streams, and
that session is in the guard of the write that lets it join (`no_session_of_the_follower_in_the_guard`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.sim.cluster_stories import (
    PLACE,
    batch,
    end_of,
    heal,
    ignored,
    is_leading,
    node_2_is_ahead,
    produce,
    until,
    written_alone,
)

from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.cluster.replication import leader_stream
from goqueue.cluster.replication.family_feed import FamilyFeed, Part
from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.leader_stream import LeaderStream
from goqueue.cluster.replication.messages import Answer, LogRound, Subscribe
from goqueue.cluster.replication.replica_log import ReplicaLog
from goqueue.cluster.replication.terms import LedPartition
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.records import LogKind, NewRecord, TopicPartition
from goqueue.testing.cluster.checks import settle
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.cluster.loop import LIFE
from goqueue.testing.cluster.replica_node import ReplicaNode


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def cuts_of(place: TopicPartition, patch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Every cut from now on: the node, and where the log of its replica ended then."""
    cuts: list[tuple[int, int]] = []
    agree = ReplicaLog.agree

    def noted(self: ReplicaLog, answer: Answer, on_cut: Callable[[str, int], None]) -> None:
        agree(self, answer, on_cut)
        life = LIFE.get()
        if self.partition.key == place and life is not None:
            cuts.append((life.node_id, self.log.end_offset))

    patch.setattr(ReplicaLog, "agree", noted)
    return cuts


# --- a leader that was replaced, and does not know ------------------------------------------------


def replaced_leader(cluster: SimCluster, patch: pytest.MonkeyPatch) -> None:
    """Node 1 is cut off from the store, is replaced, and goes on sending what it wrote to its successor."""

    async def story() -> None:
        await produce(cluster, 1, 0)
        kv = cluster.slots[1].kv
        assert kv is not None
        kv.is_cut_off = True
        cluster.network.block(1, 2)
        asyncio.get_running_loop().create_task(cluster.request(1, written_alone)).add_done_callback(ignored)
        await until(lambda: end_of(cluster, 1) == 2)
        await cluster.controller.end_session(1)
        await produce(cluster, 2, 0, producer_id=2)
        assert end_of(cluster, 2) == 2
        heal(cluster)
        # As long as a wrong cut would take.
        await asyncio.sleep(3)
        assert all(end >= 2 for node, end in cuts if node == 2), "what the new leader acknowledged was cut away"

    cuts = cuts_of(PLACE, patch)
    cluster.run(story())


def fencing_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaLog, "is_current", property(lambda _self: True))
    patch.setattr(FollowerStream, "unfollow", lambda _self, _place: None)
    patch.setattr(LeaderStream, "counts", lambda _self, _feed, _kind: True)

    async def whatever_the_role(
        _self: Partitions, _partition: Partition, _kind: LogKind, _what: str, work: Callable[[], None]
    ) -> None:
        work()

    patch.setattr(Partitions, "rework", whatever_the_role)


def test_a_leader_does_not_take_what_its_predecessor_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced_leader(SimCluster(1), monkeypatch)


def test_without_fences_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    fencing_off(monkeypatch)
    with pytest.raises(AssertionError, match="was cut away"):
        replaced_leader(SimCluster(1), monkeypatch)


# --- a follower whose log differs -----------------------------------------------------------------


def differing_follower(cluster: SimCluster, patch: pytest.MonkeyPatch) -> None:
    """Two failovers in a row: node 2 wrote in between what nobody got, and the logs end at the same offset."""

    async def story() -> None:
        await produce(cluster, 1, 0)
        topic = cluster.metadata.image.topic(TOPIC)
        assert topic is not None
        await cluster.controller.move(topic, 0)
        await until(lambda: is_leading(cluster, 2))
        cluster.network.isolate(2)
        await cluster.request(2, written_alone)
        cluster.kill(2)
        cluster.network._blocked.clear()
        await cluster.controller.end_session(2)
        leader = cluster.metadata.image.assignments(cluster.topic_id)[0].leader
        await produce(cluster, leader, 0, producer_id=2)
        may_cut = asyncio.Event()
        agree = FollowerStream._agree

        async def held(self: FollowerStream, log: ReplicaLog, answer: Answer) -> None:
            if log.partition.key == PLACE:
                await may_cut.wait()
            await agree(self, log, answer)

        patch.setattr(FollowerStream, "_agree", held)
        await cluster.start(2)
        await until(lambda: end_of(cluster, 2) == 2)
        await asyncio.sleep(5)
        isr = cluster.metadata.image.assignments(cluster.topic_id)[0].isr
        assert 2 not in isr, "its log differs"
        may_cut.set()
        await settle(cluster)

    cluster.run(story())


def progress_before_reconciliation(patch: pytest.MonkeyPatch) -> None:
    match = LeaderStream._match

    def trusting(self: LeaderStream, led: LedPartition, asked: Subscribe) -> None:
        match(self, led, asked)
        now_ms, number = self._clock.monotonic_ms(), asked.subscription
        led.term.subscribe(self._follower, asked.kind, asked.broker_epoch, asked.end, now_ms, subscription=number)
        self._terms.report(led, self._follower, asked.kind, asked.end, asked.end)

    patch.setattr(LeaderStream, "_match", trusting)


def test_a_follower_whose_log_differs_is_not_in_sync_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    differing_follower(SimCluster(1), monkeypatch)


def test_if_its_progress_counted_before_the_logs_are_matched_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    progress_before_reconciliation(monkeypatch)
    with pytest.raises(AssertionError, match="its log differs"):
        differing_follower(SimCluster(1), monkeypatch)


# --- a leader that has written nothing ------------------------------------------------------------


def leader_that_wrote_nothing(cluster: SimCluster, patch: pytest.MonkeyPatch) -> None:
    """Two failovers in a row: node 2 wrote in epoch 1 what nobody got, node 1 leads in epoch 2 and writes nothing."""

    async def story() -> None:
        await node_2_is_ahead(cluster)
        heal(cluster)
        await until(lambda: any(node == 2 for node, _ in cuts))
        assert [end for node, end in cuts if node == 2] == [1], "an in-sync replica dropped what was acknowledged"

    cuts = cuts_of(PLACE, patch)
    cluster.run(story())


def epoch_not_begun(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "begin_epoch", lambda _self, _epoch: None)


def test_a_follower_keeps_what_it_shares_with_a_leader_that_wrote_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    leader_that_wrote_nothing(SimCluster(1), monkeypatch)


def test_if_a_term_did_not_begin_with_an_entry_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch_not_begun(monkeypatch)
    with pytest.raises(AssertionError, match="dropped what was acknowledged"):
        leader_that_wrote_nothing(SimCluster(1), monkeypatch)


# --- a record and its slot ------------------------------------------------------------------------


def leader_dies_between_two_rounds(cluster: SimCluster, patch: pytest.MonkeyPatch) -> None:
    """A batch and its slot do not fit into one round, and the leader dies after the first of the two."""
    patch.setattr(leader_stream, "ROUND_BYTES_MAX", 1)
    send = LeaderStream._send_round
    sent: list[str] = []

    async def story() -> None:
        # Both logs are there, and followed.
        await cluster.request(1, lambda node: node.produce(PLACE, batch(0), slot(0)))
        await until(lambda: all(end_of(cluster, node, LogKind.DELAY) == 1 for node in cluster.slots))

        async def once(self: LeaderStream, parts: list[Part]) -> None:
            if any(part.frames for part in parts) and sent:
                await asyncio.Event().wait()
            if any(part.frames for part in parts) and self._follower == 2:
                sent.append("first")
            await send(self, parts)

        patch.setattr(LeaderStream, "_send_round", once)
        asyncio.get_running_loop().create_task(cluster.request(1, _store_with_slot)).add_done_callback(ignored)
        await until(lambda: end_of(cluster, 2) + end_of(cluster, 2, LogKind.DELAY) == 3)
        cluster.kill(1)
        patch.setattr(LeaderStream, "_send_round", send)
        await cluster.controller.end_session(1)
        await until(lambda: is_leading(cluster, 2))
        # The client sends it again.
        await cluster.request(2, _store_with_slot)
        assert end_of(cluster, 2, LogKind.DELAY) >= 2, "the slot is lost"

    cluster.run(story())


def slot(sequence: int) -> bytes:
    return encode_batch([NewRecord(b"%d" % sequence, b"slot")], now_ms=1)


async def _store_with_slot(node: ReplicaNode) -> None:
    """As `produce`; a repeat is believed to have its slot."""
    data = batch(1)
    partition = node.partitions.leader(*PLACE)
    is_repeat = partition.log.producers.check(parse_batch_header(data)) is not None
    await node.produce(PLACE, data, None if is_repeat else slot(1))


def data_before_slot(patch: pytest.MonkeyPatch) -> None:
    collect = FamilyFeed.collect

    def data_first(self: FamilyFeed, bytes_max: int) -> tuple[list[Part], bool]:
        others = {kind: log for kind, log in self.logs.items() if kind is not LogKind.DATA}
        kinds = self.led.term.kinds
        if self.logs.keys() < kinds:
            return collect(self, bytes_max)
        self.led.term.kinds = {LogKind.DATA}
        self.logs = {LogKind.DATA: self.logs[LogKind.DATA]}
        try:
            parts, _ = collect(self, bytes_max)
        finally:
            self.logs, self.led.term.kinds = {**self.logs, **others}, kinds
        return (parts, False) if parts else collect(self, bytes_max)

    patch.setattr(FamilyFeed, "collect", data_first)


def test_a_follower_never_has_a_record_without_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    leader_dies_between_two_rounds(SimCluster(1), monkeypatch)


def test_if_data_were_sent_before_slots_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    data_before_slot(monkeypatch)
    with pytest.raises(AssertionError, match="the slot is lost"):
        leader_dies_between_two_rounds(SimCluster(1), monkeypatch)


def test_a_follower_takes_no_data_while_another_log_of_the_family_is_not_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The delay log of node 2 could not be written, and is tried again later than its data log."""
    cluster = SimCluster(1)
    take = ReplicaLog.take
    is_failing = False

    def failing(self: ReplicaLog, part: LogRound, frames: bytes, on_sync: Callable[[ReplicaLog], None]) -> None:
        nonlocal is_failing
        life = LIFE.get()
        if is_failing and self.kind is LogKind.DELAY and life is not None and life.node_id == 2:
            is_failing = False
            self.wait_s = 3.0
            raise StorageError("the disk is full")
        take(self, part, frames, on_sync)

    monkeypatch.setattr(ReplicaLog, "take", failing)

    async def story() -> None:
        nonlocal is_failing
        await produce(cluster, 1, 0, slot=True)
        await until(lambda: end_of(cluster, 2, LogKind.DELAY) == 1)
        is_failing = True
        for sequence in (1, 2, 3):
            sent = cluster.request(1, lambda node, number=sequence: node.produce(PLACE, batch(number), slot(number)))
            asyncio.get_running_loop().create_task(sent).add_done_callback(ignored)
            for _ in range(50):
                data, delay = end_of(cluster, 2), end_of(cluster, 2, LogKind.DELAY)
                assert data <= delay, f"node 2 has {data} records and {delay} slots"
                await asyncio.sleep(0.01)
        await until(lambda: end_of(cluster, 2) == 4)

    cluster.run(story())
