"""What every part is made with."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import NamedTuple

from goqueue.clock import Clock, Rng
from goqueue.config import Config
from goqueue.node.world import World
from goqueue.ports import Offload


class Tools(NamedTuple):
    """Settings, time, chance, threads, the ground that the node stands on, and how all of it is closed."""

    config: Config
    world: World
    stack: AsyncExitStack
    clock: Clock
    rng: Rng
    sync_offload: Offload
    work_offload: Offload
