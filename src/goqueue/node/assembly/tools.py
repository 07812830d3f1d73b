"""What every part is made with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.clock import Clock, Rng
from goqueue.cluster.network import PeerNetwork
from goqueue.config import Config
from goqueue.metadata.shared.kv import Kv
from goqueue.node.world import World
from goqueue.ports import Offload

WrapAppends = Callable[[AppendAnywhere], AppendAnywhere]


def directly(append: AppendAnywhere) -> AppendAnywhere:
    """Nothing stands before it."""
    return append


class Tools(NamedTuple):
    """Settings, time, chance, threads, the ground that the node stands on, and how all of it is closed."""

    config: Config
    world: World
    stack: AsyncExitStack
    clock: Clock
    rng: Rng
    sync_offload: Offload
    work_offload: Offload
    # What stands before every append to a partition that may be led elsewhere. Simulations make it fail.
    appends: WrapAppends = directly
    # Of a cluster; None: as the settings say, or a node on its own.
    kv: Kv | None = None
    network: PeerNetwork | None = None
    # Set when the process is asked to stop; None: it never is before the node runs.
    stopping: asyncio.Event | None = None
