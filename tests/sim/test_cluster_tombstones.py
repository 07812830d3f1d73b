"""A replica that was away while tombstones came and went begins anew, or what they deleted would rise again."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.sim.cluster_stories import PLACE, is_leading, until

from goqueue.cluster.replication import leader_stream, reconciliation
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError
from goqueue.log.partition_log import PartitionLog
from goqueue.records import NewRecord
from goqueue.testing.cluster.checks import settle
from goqueue.testing.cluster.cluster import SimCluster

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "0"}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def log_of(cluster: SimCluster, number: int) -> PartitionLog:
    node = cluster.slots[number].node
    assert node is not None
    return node.partitions.replica(*PLACE).log


def latest(log: PartitionLog) -> dict[bytes, bytes]:
    """What the log says of every key."""
    found: dict[bytes, bytes] = {}
    offset = log.start_offset
    while offset < log.end_offset:
        read = log.read_batches(offset, max_bytes=1 << 20, upper=log.end_offset)
        for batch in read.batches:
            for record in decode_records(batch):
                assert record.key is not None
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.value
        if read.next_offset <= offset:
            break
        offset = read.next_offset
    return found


async def store(cluster: SimCluster, sequence: int, key: bytes, value: bytes | None) -> None:
    batch = encode_batch(
        [NewRecord(key, value)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=sequence,
        now_ms=cluster.clock.now_ms(),
    )
    for _ in range(20):
        try:
            await cluster.request(1, lambda node: node.produce(PLACE, batch, None))
        except GoQueueError:
            await asyncio.sleep(0.2)
        else:
            return
    raise AssertionError("it was not stored")


async def compact(cluster: SimCluster, log: PartitionLog) -> None:
    """Let tombstones go: the first pass notes when, the second drops them."""
    node = cluster.slots[1].node
    assert node is not None
    for _ in range(2):
        log.roll()
        node.flusher.mark_dirty(log)
        await until(lambda: not log.is_dirty)
        await asyncio.sleep(1)
        log.compact(cluster.clock.now_ms())
        await store(cluster, log.end_offset, b"filler", b"%d" % log.end_offset)


def away_while_a_key_was_deleted(cluster: SimCluster) -> None:
    async def story() -> None:
        await until(lambda: is_leading(cluster, 1))
        await store(cluster, 0, b"gone", b"value")
        await store(cluster, 1, b"kept", b"value")
        await settle(cluster)
        cluster.kill(3)
        await cluster.controller.end_session(3)
        await store(cluster, 2, b"gone", None)
        await store(cluster, 3, b"filler", b"x")
        log = log_of(cluster, 1)
        await compact(cluster, log)
        assert b"gone" not in latest(log)
        assert log.tombstones_gone_to == 3, "the tombstone was at offset 2"
        await cluster.start(3)
        await settle(cluster)
        assert b"gone" not in latest(log_of(cluster, 3)), "a deleted key rose again"
        assert latest(log_of(cluster, 3)) == latest(log)
        assert log_of(cluster, 3).tombstones_gone_to == 3, "it will tell whoever follows it"
        # It comes back once more, and is not copied anew this time.
        start = log_of(cluster, 3).segments[0].base_offset
        cluster.kill(3)
        await cluster.controller.end_session(3)
        await store(cluster, log.end_offset, b"filler", b"y")
        await cluster.start(3)
        await settle(cluster)
        assert log_of(cluster, 3).segments[0].base_offset == start
        assert latest(log_of(cluster, 3)) == latest(log)

    cluster.run(story())


def test_a_replica_that_missed_tombstones_begins_anew() -> None:
    away_while_a_key_was_deleted(SimCluster(1, partitions=1, config=COMPACTED))


def test_without_the_word_on_tombstones_a_deleted_key_would_rise_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leader_stream, reconciliation):
        monkeypatch.setattr(module, "lacks_tombstones", lambda *_: False)
    with pytest.raises(AssertionError, match="a deleted key rose again"):
        away_while_a_key_was_deleted(SimCluster(1, partitions=1, config=COMPACTED))


def test_what_is_known_of_tombstones_survives_a_restart() -> None:
    cluster = SimCluster(2, partitions=1, config=COMPACTED)

    async def story() -> None:
        await until(lambda: is_leading(cluster, 1))
        await store(cluster, 0, b"gone", b"value")
        await store(cluster, 1, b"gone", None)
        await store(cluster, 2, b"filler", b"x")
        await compact(cluster, log_of(cluster, 1))
        assert log_of(cluster, 1).tombstones_gone_to == 2
        cluster.kill(1)
        await cluster.controller.end_session(1)
        await cluster.start(1)
        await until(lambda: bool(cluster.slots[1].node and cluster.slots[1].node.partitions.all_open()))
        assert log_of(cluster, 1).tombstones_gone_to == 2

    cluster.run(story())
