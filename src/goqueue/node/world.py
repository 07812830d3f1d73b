"""What a node stands on: a directory that is its own, and addresses to listen on, or neither of them real."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass

from goqueue.config import Config
from goqueue.node.claims import LOCK_FILE, Listener, claim_directory, claim_listeners
from goqueue.node.config.addresses import Address, parse_address
from goqueue.ports import Files


@dataclass(frozen=True, slots=True)
class World:
    """What the node stands on: its directory, and the addresses under which it is known."""

    files: Files
    data_dir: str
    kafka: Address
    http: Address
    advertised: Address
    listeners: tuple[Listener, Listener, Listener | None] | None
    # Where derived files may lie that only the operating system can open; None: nowhere.
    index_root: str | None = None
    grpc: Address | None = None


def real_world(config: Config, stack: AsyncExitStack) -> World:
    """The machine's own: claim the addresses and the directory, before anything is read."""
    claims = stack.enter_context(ExitStack())
    kafka, http, grpc = claim_listeners(config, claims)
    files = claim_directory(config.broker.data_dir, claims)
    advertised = config.listeners.advertised_kafka
    return World(
        files=files,
        data_dir=files.root,
        kafka=kafka.address,
        http=http.address,
        advertised=parse_address(advertised) if advertised else kafka.address,
        listeners=(kafka, http, grpc),
        index_root=files.root,
        grpc=None if grpc is None else grpc.address,
    )


def given_world(config: Config, files: Files, stack: AsyncExitStack) -> World:
    """Somebody else's files, and no addresses."""
    stack.enter_context(files.lock(LOCK_FILE))
    kafka, http = parse_address(config.listeners.kafka), parse_address(config.listeners.http)
    return World(files, config.broker.data_dir, kafka, http, advertised=kafka, listeners=None)
