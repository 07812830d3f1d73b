"""A replica that may be elected for what its log has is taken off that list before it empties the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from tests.sim.test_cluster_fences import PLACE, batch, produce, until

from goqueue.cluster.replication.messages import Answer, Status
from goqueue.cluster.replication.replica_log import ReplicaLog
from goqueue.cluster.replication.terms import Terms
from goqueue.metadata.events import Assignment
from goqueue.testing.cluster.cluster import SimCluster
from goqueue.testing.cluster.loop import LIFE
from goqueue.testing.cluster.replica_node import ReplicaNode


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def assignment_in(cluster: SimCluster) -> Assignment:
    return cluster.metadata.image.assignments(cluster.topic_id)[PLACE.partition]


async def _write_and_delete(node: ReplicaNode) -> None:
    """The leader goes on alone, and retention takes what the others have not copied."""
    partition = node.partitions.leader(*PLACE)
    for sequence in range(1, 6):
        partition.writer.append(batch(sequence), now_ms=1)
    await until(lambda: partition.log.high_watermark == partition.log.end_offset)
    partition.log.delete_before(4)


def trusted_when_emptied(patch: pytest.MonkeyPatch) -> list[bool]:
    """Plays the story; returns for every log of the partition that node 2 emptied whether it was eligible then."""
    cluster = SimCluster(11)
    emptied: list[bool] = []
    agree = ReplicaLog.agree

    def noted(self: ReplicaLog, answer: Answer, on_cut: Callable[[str, int], None]) -> None:
        life = LIFE.get()
        if answer.status is Status.RESET and self.partition.key == PLACE and life is not None:
            emptied.append(life.node_id in (*assignment_in(cluster).isr, *assignment_in(cluster).eligible))
        agree(self, answer, on_cut)

    patch.setattr(ReplicaLog, "agree", noted)

    async def story() -> None:
        await produce(cluster, 1, 0)
        for node in (3, 2):
            cluster.kill(node)
            await cluster.controller.end_session(node)
        await until(lambda: assignment_in(cluster).isr == (1,))
        assert 2 in assignment_in(cluster).eligible
        await cluster.request(1, _write_and_delete)
        await cluster.start(2)
        await until(lambda: 2 in assignment_in(cluster).isr)

    cluster.run(story())
    return emptied


def test_an_eligible_replica_leaves_the_list_before_it_empties_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied = trusted_when_emptied(monkeypatch)
    assert emptied
    assert not any(emptied)


def test_without_the_rule_an_empty_log_could_be_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terms, "must_leave_first", lambda _self, _led, _follower: False)
    assert any(trusted_when_emptied(monkeypatch))
