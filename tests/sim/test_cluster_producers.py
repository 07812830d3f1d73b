"""Producers of HTTP and gRPC in a whole simulated cluster: what they write needs no answer of the metadata store."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from tests.sim.test_cluster_queues import PLACE, assignment, fill
from tests.sim.whole_cluster import WholeCluster

from goqueue.broker.arrivals.record_publishing import Published
from goqueue.records import Acks, NewRecord
from goqueue.servers.http.routes.publish import init_producer
from goqueue.servers.publishing import Sequenced, publish_sequenced
from goqueue.servers.services import Services


async def begin(services: Services) -> int:
    body = SimpleNamespace(transactional_id=None, transaction_timeout_ms=None)
    return (await init_producer(services, cast("Any", SimpleNamespace(body=body)))).producer_id


async def publish(services: Services, *, producer_id: int, sequence: int) -> list[Published]:
    records, sequenced = [NewRecord(None, b"%d" % sequence)], Sequenced(producer_id, 0, sequence)
    return await publish_sequenced(services, *PLACE, records, acks=Acks.ALL, sequenced=sequenced)


def test_an_idempotent_producer_goes_on_while_the_metadata_store_is_away() -> None:
    """Whose transactions it writes is asked of nobody: its id was given out to write none."""
    cluster = WholeCluster(1)

    async def story() -> None:
        await fill(cluster, 1)
        leader = assignment(cluster).leader
        # Of another node, as behind a load balancer.
        producer_id = await cluster.call(next(node for node in cluster.slots if node != leader), begin)
        await cluster.call(leader, partial(publish, producer_id=producer_id, sequence=0))
        for slot in cluster.slots.values():
            assert slot.kv is not None
            slot.kv.is_cut_off = True
        began = cluster.loop.time()
        (done,) = await cluster.call(leader, partial(publish, producer_id=producer_id, sequence=1))
        assert done.error is None
        assert cluster.loop.time() - began < 0.5

    cluster.play(story)
