"""From bound listeners to doors: each with its TLS context and the address that its clients are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from goqueue.clock import Clock
from goqueue.config import Config
from goqueue.node.config.listeners import PROTOCOLS
from goqueue.node.listeners.claims import Listener
from goqueue.node.serving import Serving
from goqueue.servers.doors import Door, TlsFiles

if TYPE_CHECKING:
    from goqueue.node.listeners.tls import TlsContexts


def open_doors(
    config: Config, listeners: Sequence[Listener], clock: Clock, stack: AsyncExitStack, serving: Serving
) -> Mapping[str, list[Door]]:
    """The doors of each protocol. With TLS, files are watched until the stack unwinds."""
    contexts = _contexts(config, listeners, clock, stack)
    if contexts is not None:
        serving.watch_certificate(contexts.days_left)
    doors: dict[str, list[Door]] = {protocol: [] for protocol in PROTOCOLS}
    for one in listeners:
        spec = one.spec
        tls = partial(contexts.current, spec.client_certificates) if contexts is not None and spec.is_tls else None
        names = config.tls
        files = TlsFiles(names.certificate, names.key, names.client_ca, spec.client_certificates) if tls else None
        host, port = one.advertised.host, one.advertised.port
        doors[spec.protocol].append(Door(spec.name, one.socket, host, port, tls, files))
    return doors


def _contexts(config: Config, listeners: Sequence[Listener], clock: Clock, stack: AsyncExitStack) -> TlsContexts | None:
    modes = frozenset(one.spec.client_certificates for one in listeners if one.spec.is_tls)
    if not modes:
        return None
    # Imported only where TLS is on.
    from goqueue.node.listeners.tls import TlsContexts

    contexts = TlsContexts(config.tls, modes, clock)
    contexts.start()
    stack.push_async_callback(contexts.close)
    return contexts
