"""Certificates of the listeners: read from their files, and read again when a file changes.

A context is never changed. A changed file makes a new context for the connections that come after it, so that an
authority that was removed from a file is no longer trusted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from goqueue.clock import Clock
from goqueue.config import TlsConfig
from goqueue.errors import ConfigError

_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# Not a way of asking for certificates: the context of connections that this node makes to other nodes.
CONNECTING = "connecting"
_DAY_MS = 24 * 3600 * 1000
_log = logging.getLogger("goqueue.node.listeners.tls")


class TlsContexts:
    """The current context for each way of asking for client certificates."""

    def __init__(
        self,
        config: TlsConfig,
        modes: frozenset[str],
        clock: Clock,
        *,
        name: str = "tls",
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """Read the files; raises `ConfigError` if they do not make a context. Blocks.

        `name` is what the settings of the files begin with; `on_change` is called when changed files are used.
        """
        self._config = config
        self._modes = modes
        self._clock = clock
        self._on_change = on_change
        self._stamp = self._stamps()
        self._task: asyncio.Task[None] | None = None
        self._warned_day = -1
        try:
            self._contexts = self._read()
        except (OSError, ValueError) as error:
            raise ConfigError([f"{name}: {_reason(error)}"]) from error

    def current(self, mode: str) -> ssl.SSLContext:
        """The context for a connection that arrives now."""
        return self._contexts[mode]

    def days_left(self) -> float:
        """Days until the node's certificate expires; below 0 once it has."""
        return (self._expires_ms - self._clock.now_ms()) / _DAY_MS

    def start(self) -> None:
        """Look at the files from time to time."""
        self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop looking. A second close does no harm."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def reload(self) -> bool:
        """Read changed files; returns whether there are new contexts. Files that do not fit are tried again."""
        stamp = self._stamps()
        if stamp == self._stamp:
            return False
        try:
            self._contexts = self._read()
        except (OSError, ValueError) as error:
            # Certificate and key are replaced one after the other: the next look finds both.
            _log.warning("changed TLS files are not used yet: %s", _reason(error))
            return False
        self._stamp = stamp
        _log.info("TLS files have changed: new connections use them")
        if self._on_change is not None:
            self._on_change()
        return True

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._config.reload_ms / 1000)
            self.reload()
            self._warn()

    def _warn(self) -> None:
        day = self._clock.now_ms() // _DAY_MS
        days = self.days_left()
        if days < self._config.expiry_warning_days and day != self._warned_day:
            self._warned_day = day
            _log.warning("the certificate %s expires in %d days", self._config.certificate, days)

    def _read(self) -> dict[str, ssl.SSLContext]:
        contexts = {mode: self._context(mode) for mode in self._modes}
        self._expires_ms = _expires_ms(self._config.certificate)
        return contexts

    def _context(self, mode: str) -> ssl.SSLContext:
        is_client = mode == CONNECTING
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if is_client else ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        # An encrypted key would make the start ask for a password on the terminal.
        context.load_cert_chain(self._config.certificate, self._config.key, password=_refuse_password)
        context.verify_mode = ssl.CERT_REQUIRED if is_client else _VERIFY[mode]
        if mode != "none":
            context.load_verify_locations(self._config.client_ca)
        return context

    def _stamps(self) -> tuple[object, ...]:
        names = (self._config.certificate, self._config.key, self._config.client_ca)
        return tuple(_stamp(name) for name in names if name)


def _stamp(name: str) -> object:
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _expires_ms(path: str) -> int:
    """When the first certificate of a file ends to be valid."""
    decoded = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]  # noqa: SLF001 - the only way without a package
    return int(ssl.cert_time_to_seconds(str(decoded["notAfter"]))) * 1000


def _refuse_password() -> str:
    raise ValueError("the private key is encrypted: give one without a password, readable by the broker alone")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"certificate, key and authorities do not fit: {error.reason or error}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)
