"""Cluster: the shared metadata, this node's session and registration, and the controller that it may become."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from goqueue.cluster.cluster_events import ClusterEvent, ClusterEvents
from goqueue.cluster.control.controller import Controller
from goqueue.cluster.control.placement import ClusterPlacement
from goqueue.cluster.counted_network import CountedNetwork, Traffic
from goqueue.cluster.network import PeerNetwork
from goqueue.cluster.peer_listener import PeerListener
from goqueue.cluster.registration import Directory, Registration
from goqueue.cluster.session import Session
from goqueue.cluster.tcp.network import PeerAddress, TcpNetwork
from goqueue.config import Config
from goqueue.errors import ConfigError, GoQueueError, StartInterrupted, StorageError
from goqueue.metadata.directory import DataDirectory
from goqueue.metadata.image import Image
from goqueue.metadata.shared.kv import Kv, KvError
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.node.assembly.registered import this_node
from goqueue.node.assembly.tools import Tools
from goqueue.node.cluster.belonging import check_belonging, keep_belonging
from goqueue.node.cluster.importing import founded
from goqueue.node.cluster.peer_tls import PeerCertificates, peer_tls_of
from goqueue.node.cluster.voter import voter_of
from goqueue.node.cluster.watchdog import Watchdog
from goqueue.node.config.addresses import Address, parse_address
from goqueue.node.config.cluster_settings import peer_address, peers_of, read_secrets, voters_of
from goqueue.node.listeners.listening import bind, bound_address
from goqueue.node.reports import report_cluster_event
from goqueue.node.system_clock import boot_ms

if TYPE_CHECKING:
    import socket

_log = logging.getLogger("goqueue.cluster")

# How long a clean stop waits for its leaderships to be taken over.
HAND_OVER_S_MAX = 10.0
# How long a start waits for a metadata store that somebody else runs.
STORE_S_MAX = 60.0
_TOLD_EVERY_S = 5.0
_RETRY_S = 0.2


class Cluster(NamedTuple):
    """This node among others."""

    metadata: KvMetadata
    session: Session
    registration: Registration
    controller: Controller
    placement: ClusterPlacement
    network: PeerNetwork
    listener: PeerListener
    # Bytes between this node and its peers.
    traffic: Traffic
    # What happened, from before this node registered.
    events: ClusterEvents
    # None: nodes talk without it.
    tls: PeerCertificates | None = None

    def problem(self) -> str | None:
        """Why this node may not speak for what it leads; None if it may."""
        if not self.session.is_alive():
            return "this node has no session with the metadata store: others lead what it led"
        node = self.metadata.image.nodes().get(self.registration.node_id)
        # The controller unfences a node once nothing counts on what it led in its session before. One that stops in
        # order is fenced as well, and leads until others do.
        is_known = node is not None and node.broker_epoch == self.session.epoch
        if node is None or not is_known or (node.fenced and not node.clean_token):
            return "this node has registered anew, and does not know yet who leads what it led"
        return None

    def watch_loop(self, stack: AsyncExitStack) -> None:
        """Say in the log where the event loop hangs, until the stack unwinds."""
        watchdog = Watchdog()
        watchdog.start()
        stack.callback(watchdog.close)

    async def hand_over(self, directory: DataDirectory) -> None:
        """Before a clean stop: let others lead what this node leads, as far as they can."""
        # The token is that of the last registration, which may be later than the start.
        if self.session.is_alive() and directory.start is not None:
            with suppress(TimeoutError, GoQueueError):
                async with asyncio.timeout(HAND_OVER_S_MAX):
                    await self.registration.hand_over(directory.start.token)


async def open_cluster(tools: Tools, directory: DataDirectory) -> Cluster:
    """Register this node, and wait until the controller has unfenced it. No partition is opened before."""
    try:
        return await _unless_stopped(_join(tools, directory), tools.stopping)
    except StartInterrupted:
        raise
    except (GoQueueError, OSError, KvError) as error:
        # Nobody can ask this node for its events, so the log has it.
        node_id = tools.config.broker.node_id
        report_cluster_event(ClusterEvent(tools.clock.now_ms(), "BootstrapFailed", node_id, detail=str(error)))
        raise


async def _unless_stopped(joining: Coroutine[None, None, Cluster], stopping: asyncio.Event | None) -> Cluster:
    """Join, unless this process is asked to stop meanwhile: the nodes that it waits for may never come."""
    if stopping is None:
        return await joining
    work, asked = asyncio.create_task(joining), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([work, asked], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise StartInterrupted("the node was asked to stop while it waited for others")
        return work.result()
    finally:
        for task in (work, asked):
            task.cancel()
        await asyncio.wait([work, asked])


async def _join(tools: Tools, directory: DataDirectory) -> Cluster:
    config, stack = tools.config, tools.stack
    node_id, prefix = config.broker.node_id, config.metadata.prefix
    check_belonging(tools.world.files, node_id=node_id, data_dir=tools.world.data_dir)
    kv = tools.kv or await _open_etcd(tools)
    session = Session(kv, ttl_ms=config.cluster.session_ms, boot_ms=_boot_clock(tools))
    stack.push_async_callback(session.end)
    # Before the import: this says which nodes the store still needs.
    lease = await _first_lease(session, config)
    await founded(kv, config)
    if tools.kv is None:
        await _refuse_unfit(config)
    metadata = await KvMetadata.open(kv, prefix=prefix, rng=tools.rng, lease=lease)
    stack.push_async_callback(metadata.close)
    events = ClusterEvents(node_id, metadata.image, tools.clock, report_cluster_event)
    metadata.subscribe(events.on_delta)
    events.note("BootstrapStarted", node_id)
    files, data_dir = tools.world.files, tools.world.data_dir
    check_belonging(files, node_id=node_id, data_dir=data_dir, cluster_id=metadata.cluster_id)
    traffic = Traffic()
    network, peer, tls = _open_network(tools, metadata, traffic)

    voter = voter_of(config)

    async def keep_epoch(epoch: int) -> None:
        """Blocks for a moment: a few times in the life of a node."""
        start = directory.begin(tools.rng, epoch)
        keep_belonging(files, node_id=node_id, cluster_id=metadata.cluster_id)
        if DataDirectory(files).last_epoch != start.epoch:
            raise StorageError("the broker epoch could not be written to the data directory: is the disk full?")
        if voter is not None:
            voter.keep_epoch(start.epoch)

    registration = Registration(
        metadata,
        kv,
        session,
        this_node(tools, directory.identity(tools.rng), fenced=True, peer=peer),
        Directory(directory.identity(tools.rng), directory.last_epoch),
        keep_epoch,
        prefix=prefix,
        takeover_ms=2 * config.cluster.session_ms,
    )
    controller = Controller(
        metadata, session, node_id=node_id, return_after_ms=config.cluster.leader_return_ms, clock=tools.clock
    )
    controller.start()
    stack.push_async_callback(controller.close)
    epoch = await registration.register()
    _log.info("node %d has registered in cluster %s, with broker epoch %d", node_id, metadata.cluster_id, epoch)
    rejoining = asyncio.create_task(registration.rejoin_forever())
    stack.callback(rejoining.cancel)
    await _until_unfenced(registration)
    configured = peers_of(config)
    if len(configured) == 2:
        _log.warning("a cluster of two nodes does not survive the loss of one: use three")
    placement = ClusterPlacement(
        lambda: metadata.image,
        configured.keys(),
        copies_default=config.cluster.replication_factor,
        min_insync=config.cluster.min_insync_replicas,
    )
    listener = PeerListener(network)
    return Cluster(metadata, session, registration, controller, placement, network, listener, traffic, events, tls)


async def _open_etcd(tools: Tools) -> Kv:
    # Not above: grpcio would double the time that a node on its own takes to start.
    from goqueue.node.cluster.etcd import open_etcd

    return await open_etcd(tools.config, tools.stack)


async def _refuse_unfit(config: Config) -> None:
    from goqueue.node.cluster.etcd import refuse_unfit_now

    await refuse_unfit_now(config)


def _open_network(
    tools: Tools, metadata: KvMetadata, traffic: Traffic
) -> tuple[PeerNetwork, str, PeerCertificates | None]:
    """The network between nodes, the address by which others find this one in it, and its TLS."""
    config = tools.config
    if tools.network is not None:
        return tools.network, f"node-{config.broker.node_id}:1", None
    tls = peer_tls_of(config, tools.clock)
    listener, address = _bind(peer_address(config))
    network = TcpNetwork(
        node_id=config.broker.node_id,
        cluster_id=metadata.cluster_id,
        secrets=read_secrets(config.cluster.secret_file),
        address_of=lambda node_id: _address_of(metadata.image, node_id),
        sock=listener,
        rng=tools.rng,
        tls=tls,
    )
    tools.stack.push_async_callback(network.close)
    if tls is not None:
        tls.on_authority_removed(network.drop_connections)
        tls.start()
        tools.stack.push_async_callback(tls.close)
    advertised = parse_address(config.cluster.advertised) if config.cluster.advertised else None
    own = peers_of(config)[config.broker.node_id]
    return CountedNetwork(network, traffic), str(advertised or (own if own.port else address)), tls


def _bind(address: Address) -> tuple[socket.socket, Address]:
    listener = bind(address)
    return listener, bound_address(address, listener)


def _address_of(image: Image, node_id: int) -> PeerAddress | None:
    node = image.nodes().get(node_id)
    if node is None or "peer" not in node.addresses:
        return None
    address = parse_address(node.addresses["peer"])
    return PeerAddress(address.host, address.port)


def _boot_clock(tools: Tools) -> Callable[[], int]:
    # A node on somebody else's files is on somebody else's time, too.
    return tools.clock.monotonic_ms if tools.world.listeners is None else boot_ms


async def _first_lease(session: Session, config: Config) -> int:
    """Wait for the metadata store: after a power cut it may start later than this node.

    For as long as it takes if its servers start with the nodes: this node's own would end with it, and none would ever
    find enough others.
    """
    waited_s, now_s = 0.0, asyncio.get_running_loop().time
    told_s = now_s()
    while True:
        try:
            return await session.begin()
        except KvError as error:
            if waited_s >= STORE_S_MAX and config.metadata.mode != "managed":
                raise ConfigError([f"metadata.endpoints: the metadata store does not answer: {error}"]) from error
            if now_s() - told_s >= _TOLD_EVERY_S:
                told_s = now_s()
                _log.warning("waiting for the metadata store%s: %s", _needed(config), error)
            await asyncio.sleep(_RETRY_S)
            waited_s += _RETRY_S


def _needed(config: Config) -> str:
    """Which nodes have to run for the metadata store to answer, if they run it."""
    voters = sorted(voters_of(config)) if config.metadata.mode == "managed" else []
    if len(voters) < 2:
        return ""
    return f", which needs {len(voters) // 2 + 1} of nodes {', '.join(map(str, voters))} (metadata.voters)"


async def _until_unfenced(registration: Registration) -> None:
    waiting = asyncio.ensure_future(registration.unfenced())
    try:
        while not (await asyncio.wait([waiting], timeout=_TOLD_EVERY_S))[0]:
            _log.warning("node %d waits for the controller to unfence it", registration.node_id)
    finally:
        waiting.cancel()
