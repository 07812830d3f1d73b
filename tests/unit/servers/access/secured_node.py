"""A node in memory with security on: users with every role, and one without any."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from goqueue.broker.topics import NewTopic
from goqueue.caller import Caller
from goqueue.config import Config, SecurityConfig
from goqueue.node.assemble import assemble
from goqueue.node.node import Running
from goqueue.security.model import BUILT_IN_ROLES, Binding
from goqueue.testing.clock import seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

SECRET = "vault-9"
ROLES = (*BUILT_IN_ROLES, "nothing")


@asynccontextmanager
async def secured_node(**settings: object) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """The node, and an API key of a user for each role."""
    security = replace(SecurityConfig(), enabled=True, failed_login_ms_max=0, **settings)  # type: ignore[arg-type]
    config = replace(Config(), security=security)
    node = assemble(config, files=MemoryFiles(), rng=seeded_rng(1), offload=InlineOffload())
    running = await node.start()
    try:
        assert running.security is not None
        admin = running.security.admin
        keys = {}
        for role in ROLES:
            keys[role] = (await admin.create_key(f"User:{role}")).text
            if role != "nothing":
                await admin.bind(Binding(f"User:{role}", role, ""))
        root = running.services.for_caller(Caller(principal="User:admin"))
        await root.topics.create(NewTopic(SECRET, partitions=1))
        yield running, keys
    finally:
        await node.stop()
