"""What a node watches of its peers and of itself: clocks, lags, and whether its replicas have caught up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.health import ClusterChecks

if TYPE_CHECKING:
    from goqueue.anywhere.asking import Asking
    from goqueue.cluster.peer_watch import PeerWatch
    from goqueue.metadata.store import MetadataStore
    from goqueue.node.assembly.cluster import Cluster


def open_watch(tools: Tools, storage: Storage, asking: Asking | None) -> PeerWatch | None:
    """Begin to ask peers for their clocks, and answer theirs; None on a node of its own."""
    if asking is None or storage.replicas is None:
        return None
    # Not above: a node on its own does not wait for what it does not use.
    from goqueue.cluster.peer_watch import PeerWatch
    from goqueue.cluster.replication.counts import lags_of

    metadata, terms = storage.metadata, storage.replicas.terms
    watch = PeerWatch(
        tools.config.broker.node_id,
        asking.calls,
        tools.clock,
        lambda: frozenset(metadata.image.sessions),
        lambda: lags_of(terms, metadata.image),
    )
    if tools.world.listeners is not None:
        # A node on somebody else's files shares their clock.
        watch.start()
        tools.stack.push_async_callback(watch.close)
    return watch


def watch_session(tools: Tools, cluster: Cluster | None, metadata: MetadataStore) -> None:
    """Note the end of this node's session among the events, and its return, until the stack unwinds."""
    if cluster is None or tools.world.listeners is None:
        return
    from goqueue.cluster.catching_up import CatchingUp
    from goqueue.cluster.session_watch import SessionWatch

    node_id = tools.config.broker.node_id
    catching_up = CatchingUp(node_id, lambda: metadata.image)
    watch = SessionWatch(node_id, cluster.session.is_alive, lambda: catching_up.problem() is None, cluster.events)
    watch.start()
    tools.stack.push_async_callback(watch.close)


def cluster_checks(
    cluster: Cluster | None, metadata: MetadataStore, node_id: int, watch: PeerWatch | None
) -> ClusterChecks | None:
    """What `/readyz` asks of a node in a cluster."""
    if cluster is None:
        return None
    from goqueue.cluster.catching_up import CatchingUp

    catching_up = CatchingUp(node_id, lambda: metadata.image)
    return ClusterChecks(cluster.problem, catching_up.problem, lambda: None if watch is None else watch.warning())
