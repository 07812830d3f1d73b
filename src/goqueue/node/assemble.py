"""The composition root: the only place that knows all the parts and puts them together.

Read from top to bottom it is the order of the start; the stack closes in the reverse. The parts are in `assembly`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import SystemRandom

from goqueue.clock import Clock, Rng
from goqueue.config import Config
from goqueue.node.assembly.features import open_features
from goqueue.node.assembly.front_ends import make_services, secure, serve
from goqueue.node.assembly.paths import open_paths
from goqueue.node.assembly.storage import open_storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.disk.offload import ThreadOffload
from goqueue.node.node import Node, Running
from goqueue.node.serving import Serving
from goqueue.node.stories.wiring import open_stories
from goqueue.node.system_clock import SystemClock
from goqueue.node.world import given_world, real_world
from goqueue.ports import Files, Offload

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
) -> Node:
    """A node, not yet started. With `files` it runs on those, in the caller's loop, and listens nowhere."""

    async def wire(stack: AsyncExitStack) -> Running:
        tools = Tools(
            config,
            real_world(config, stack) if files is None else given_world(config, files, stack),
            stack,
            clock or SystemClock(),
            rng or SystemRandom(),
            sync_offload=offload or _threads("sync", SYNC_THREADS, stack),
            work_offload=offload or _threads("work", WORK_THREADS, stack),
        )
        storage = await open_storage(tools)
        stories = open_stories(tools, storage)
        paths = await open_paths(tools, storage, stories)
        features = await open_features(tools, storage, paths, stories)
        serving = Serving()
        services = make_services(tools, storage, paths, features, stories, serving)
        services, security = await secure(tools, storage, services)
        await serve(tools, services, serving, security)
        world = tools.world
        return Running(
            services, world.data_dir, world.kafka, world.http, world.grpc, *world.named_listeners(), security
        )

    return Node(wire)


def _threads(name: str, threads_max: int, stack: AsyncExitStack) -> ThreadOffload:
    threads = ThreadOffload(name, threads_max=threads_max)
    stack.callback(threads.close)
    return threads
