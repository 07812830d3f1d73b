"""Addresses as people write them: `127.0.0.1:9092`, `[::1]:9092`, `broker.example:0`, `:8080`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.errors import ConfigError

_PORT_MAX = 65535
_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")
_EVERYWHERE = "0.0.0.0"  # noqa: S104 (named so that it can be refused)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port. As text, an IPv6 host stands in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_everywhere(self) -> bool:
        """Whether it means all interfaces: fit to listen on, unfit to tell anyone."""
        ip = _ip(self.host)
        return ip is not None and ip.is_unspecified

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        ip = _ip(self.host)
        if ip is None:
            return self.host == "localhost" or self.host.endswith(".localhost")
        return ip.is_loopback


def parse_address(text: str) -> Address:
    """Read `host:port`, or raise ValueError saying what is wrong. An empty host means all interfaces."""
    if "://" in text:
        raise ValueError("give host:port, without a scheme")
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError("give host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not isinstance(_ip(host), ipaddress.IPv6Address):
            raise ValueError("only an IPv6 address stands in brackets")
    elif ":" in host:
        raise ValueError("put an IPv6 address in brackets, as in [::1]:9092")
    elif host and _ip(host) is None and not _is_host_name(host):
        raise ValueError(f"{host!r} is not a host name or address")
    if not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
        raise ValueError(f"{port!r} is not a port: give a number from 0 to {_PORT_MAX}")
    return Address(host or _EVERYWHERE, int(port))


def check_hosts(hosts: Sequence[str], option: str) -> None:
    """Raise `ConfigError` unless each is a host that others can reach, without scheme and port."""
    wrong = [host for host in hosts if not _is_host(host)]
    if wrong:
        raise ConfigError(
            [f"{option} {one!r}: give a host name or an address, without scheme and port" for one in wrong]
        )


def _is_host(text: str) -> bool:
    ip = _ip(text)
    return _is_host_name(text) if ip is None else not ip.is_unspecified


def _is_host_name(host: str) -> bool:
    # A name of digits and dots alone is an IPv4 address that somebody mistyped.
    return _HOST_NAME.fullmatch(host) is not None and not host.replace(".", "").isdigit()


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
