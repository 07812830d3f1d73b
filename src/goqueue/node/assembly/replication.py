"""Replication of the partitions of this node, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.replicas.partitions import Partitions
from goqueue.cluster.isr import IsrChanges
from goqueue.cluster.network import CATCHING_UP, REPLICATION
from goqueue.cluster.replication.service import Replication
from goqueue.cluster.replication.terms import Terms
from goqueue.node.assembly.tools import Tools
from goqueue.node.disk.flusher import Flusher

if TYPE_CHECKING:
    from goqueue.node.assembly.cluster import Cluster


class Replicas(NamedTuple):
    """The copies of this node's partitions on other nodes, and of theirs on this one."""

    terms: Terms
    isr: IsrChanges
    replication: Replication


def make_terms(tools: Tools, cluster: Cluster, flusher: Flusher) -> Terms:
    """What makes the writers of partitions, before there are partitions."""
    return Terms(
        node_id=tools.config.broker.node_id,
        metadata=cluster.metadata,
        syncer=flusher,
        clock=tools.clock,
        acks_written=tools.config.durability.acks_all == "written",
    )


async def open_replicas(
    tools: Tools, cluster: Cluster, terms: Terms, partitions: Partitions, flusher: Flusher
) -> Replicas:
    """Follow, and be followed, from now on."""
    config, session = tools.config, cluster.session
    terms.bind(partitions)
    isr = IsrChanges(
        node_id=config.broker.node_id,
        terms=terms,
        metadata=cluster.metadata,
        clock=tools.clock,
        broker_epoch=lambda: session.epoch,
        lag_ms_max=config.cluster.replica_lag_ms_max,
    )
    replication = Replication(
        node_id=config.broker.node_id,
        network=cluster.network,
        partitions=partitions,
        terms=terms,
        metadata=cluster.metadata,
        syncer=flusher,
        offload=tools.work_offload,
        clock=tools.clock,
        broker_epoch=lambda: session.epoch,
        catch_up_bytes_per_s_max=config.cluster.catch_up_bytes_per_s_max,
    )
    replication.counts.on_lost = cluster.events.note_surplus
    for purpose in (REPLICATION, CATCHING_UP):
        cluster.listener.serve(purpose, replication.serve)
    await cluster.listener.start()
    tools.stack.push_async_callback(replication.close)
    tools.stack.push_async_callback(isr.close)
    replication.start()
    isr.start()
    return Replicas(terms, isr, replication)
