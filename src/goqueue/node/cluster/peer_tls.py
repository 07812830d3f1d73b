"""PeerCertificates: the TLS of connections between nodes, from files that are read again when they change.

An authority that was removed from its file is not trusted by new connections, and connections that may stand on it are
closed: each is made again and checked anew.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from goqueue.clock import Clock
from goqueue.config import Config, TlsConfig
from goqueue.node.listeners.tls import CONNECTING, TlsContexts

_log = logging.getLogger("goqueue.cluster")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def peer_tls_of(config: Config, clock: Clock) -> PeerCertificates | None:
    """What the settings say; None: nodes talk without TLS. Blocks."""
    cluster = config.cluster
    if cluster.tls == "off":
        return None
    files = TlsConfig(
        cluster.tls_certificate,
        cluster.tls_key,
        cluster.tls_ca,
        reload_ms=config.tls.reload_ms,
        expiry_warning_days=config.tls.expiry_warning_days,
    )
    if cluster.tls == "optional":
        _log.warning("cluster.tls is optional: connections of other nodes without TLS are accepted")
    return PeerCertificates(files, is_required=cluster.tls == "required", clock=clock)


class PeerCertificates:
    """A `PeerTls`."""

    def __init__(self, files: TlsConfig, *, is_required: bool, clock: Clock) -> None:
        """Read the files; raises `ConfigError` if they do not fit each other. Blocks."""
        self.is_required = is_required
        self._files = files
        self._contexts = TlsContexts(
            files, frozenset({"required", CONNECTING}), clock, name="cluster.tls", on_change=self._changed
        )
        self._authorities = self._read_authorities()
        self._on_removed: Callable[[], None] | None = None

    def accepting(self) -> ssl.SSLContext:
        """See `PeerTls.accepting`."""
        return self._contexts.current("required")

    def connecting(self) -> ssl.SSLContext:
        """See `PeerTls.connecting`."""
        return self._contexts.current(CONNECTING)

    def on_authority_removed(self, call: Callable[[], None]) -> None:
        """Call this when an authority is no longer in its file."""
        self._on_removed = call

    def days_left(self) -> float:
        """Days until the certificate expires; below 0 once it has."""
        return self._contexts.days_left()

    def start(self) -> None:
        """Look at the files from time to time."""
        self._contexts.start()

    def reload(self) -> bool:
        """Look at the files now; returns whether they have changed and are used."""
        return self._contexts.reload()

    async def close(self) -> None:
        """Stop looking."""
        await self._contexts.close()

    def _changed(self) -> None:
        before = self._authorities
        # A file that is just being replaced is looked at again with the next change.
        with suppress(OSError):
            self._authorities = self._read_authorities()
        if before - self._authorities and self._on_removed is not None:
            _log.warning(
                "an authority was removed from %s: connections between nodes are made anew", self._files.client_ca
            )
            self._on_removed()

    def _read_authorities(self) -> frozenset[bytes]:
        return frozenset(_CERTIFICATE.findall(Path(self._files.client_ca).read_bytes()))
