"""The composition root: the only place that knows all the parts and puts them together.

Read from top to bottom it is the order of the start; the stack closes in the reverse. The parts are in `assembly`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import SystemRandom

from goqueue.anywhere.reading.stories import StoriesAnywhere
from goqueue.clock import Clock, Rng
from goqueue.cluster.network import PeerNetwork
from goqueue.config import Config
from goqueue.metadata.shared.kv import Kv
from goqueue.node.assembly.anywhere import open_asking, services_anywhere
from goqueue.node.assembly.features import open_features
from goqueue.node.assembly.front_ends import make_services, secure, serve
from goqueue.node.assembly.migration import migrate
from goqueue.node.assembly.paths import open_paths
from goqueue.node.assembly.peer_watch import open_watch
from goqueue.node.assembly.storage import open_storage
from goqueue.node.assembly.tools import Tools, WrapAppends, directly
from goqueue.node.disk.offload import ThreadOffload
from goqueue.node.node import Node, Running
from goqueue.node.serving import Serving
from goqueue.node.stories.wiring import open_stories
from goqueue.node.system_clock import SystemClock
from goqueue.node.world import given_world, real_world
from goqueue.ports import Files, Offload
from goqueue.servers.http.app import ROUTES

# Syncs have threads of their own: a cold read must not stand in a producer's way to the disk.
SYNC_THREADS = 8
WORK_THREADS = 4


def assemble(
    config: Config,
    *,
    files: Files | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
    offload: Offload | None = None,
    appends: WrapAppends = directly,
    kv: Kv | None = None,
    network: PeerNetwork | None = None,
    stopping: asyncio.Event | None = None,
) -> Node:
    """A node, not yet started. With `files` it runs on those, in the caller's loop, and listens nowhere.

    `appends` may put something before the appends to partitions that other nodes might lead. With `kv` and `network`
    it is a node of a cluster that shares the one and talks over the other, whatever the settings say of etcd and
    of peer addresses. `stopping` ends a start that waits for other nodes, with `StartInterrupted`.
    """

    async def wire(stack: AsyncExitStack) -> Running:
        tools = Tools(
            config,
            real_world(config, stack) if files is None else given_world(config, files, stack),
            stack,
            clock or SystemClock(),
            rng or SystemRandom(),
            sync_offload=offload or _threads("sync", SYNC_THREADS, stack),
            work_offload=offload or _threads("work", WORK_THREADS, stack),
            appends=appends,
            kv=kv,
            network=network,
            stopping=stopping,
        )
        storage = await open_storage(tools)
        await migrate(tools, storage)
        stories = open_stories(tools, storage)
        asking = await open_asking(tools, storage)
        if asking is not None:
            stack.push_async_callback(StoriesAnywhere(stories.tracing, asking).close)
        paths = await open_paths(tools, storage, stories, asking)
        features = await open_features(tools, storage, paths, stories, asking)
        serving = Serving()
        if storage.cluster is not None and storage.cluster.tls is not None:
            serving.watch_certificate(storage.cluster.tls.days_left)
        watch = open_watch(tools, storage, asking)
        services = make_services(tools, storage, paths, features, stories, serving, watch)
        services, security = await secure(tools, storage, services, asking)
        anywhere, routes = services, ROUTES
        if asking is not None and features.queues is not None:
            anywhere, routes = services_anywhere(services, asking, storage.partitions, features.queues)
            # Peers are answered once all that they may ask for is there.
            asking.begin()
        await serve(tools, services, anywhere, routes, serving, security)
        if storage.cluster is not None:
            if tools.world.listeners is not None:
                # Not before: a start holds up the loop, and nobody is served yet.
                storage.cluster.watch_loop(stack)
            # First of all that a stop does: others lead before the listeners close.
            stack.push_async_callback(storage.cluster.hand_over, storage.directory)
        world = tools.world
        return Running(
            services,
            world.data_dir,
            world.kafka,
            world.http,
            world.grpc,
            *world.named_listeners(),
            security,
            config.tls.client_ca,
        )

    return Node(wire)


def _threads(name: str, threads_max: int, stack: AsyncExitStack) -> ThreadOffload:
    threads = ThreadOffload(name, threads_max=threads_max)
    stack.callback(threads.close)
    return threads
