"""What a node stands on: a directory that is its own, and addresses to listen on, or neither of them real."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass

from goqueue.config import Config
from goqueue.node.config.addresses import Address
from goqueue.node.config.listeners import listeners_of
from goqueue.node.listeners.claims import LOCK_FILE, Listener, claim_directory, claim_listeners
from goqueue.ports import Files


@dataclass(frozen=True, slots=True)
class World:
    """What the node stands on: its directory, and the addresses under which it is known."""

    files: Files
    data_dir: str
    # Of the first listener of each protocol.
    kafka: Address
    http: Address
    advertised: Address
    listeners: tuple[Listener, ...] | None
    # Where derived files may lie that only the operating system can open; None: nowhere.
    index_root: str | None = None
    # None: there is no gRPC listener.
    grpc: Address | None = None

    def named_listeners(self) -> tuple[dict[str, Address], frozenset[str]]:
        """The addresses of all listeners by name, and the names of those that use TLS."""
        bound = self.listeners or ()
        addresses = {one.spec.name: one.address for one in bound}
        return addresses, frozenset(one.spec.name for one in bound if one.spec.is_tls)


def real_world(config: Config, stack: AsyncExitStack) -> World:
    """The machine's own: claim the addresses and the directory, before anything is read."""
    claims = stack.enter_context(ExitStack())
    listeners = claim_listeners(config, claims)
    files = claim_directory(config.broker.data_dir, claims)
    first = {one.spec.protocol: one for one in reversed(listeners)}
    return World(
        files=files,
        data_dir=files.root,
        kafka=first["kafka"].address,
        http=first["http"].address,
        advertised=first["kafka"].advertised,
        listeners=listeners,
        index_root=files.root,
        grpc=first["grpc"].address if "grpc" in first else None,
    )


def given_world(config: Config, files: Files, stack: AsyncExitStack) -> World:
    """Somebody else's files, and no addresses."""
    stack.enter_context(files.lock(LOCK_FILE))
    first = {one.protocol: one.address for one in reversed(listeners_of(config))}
    kafka = first["kafka"]
    return World(files, config.broker.data_dir, kafka, first["http"], advertised=kafka, listeners=None)
