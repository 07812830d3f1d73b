"""Keeps pages in browsers from using the API behind their reader's back.

A page of elsewhere may not write (its Origin is not ours), may not send the kinds of bodies that forms send, and may
not reach a broker on loopback under a name of its own (DNS rebinding: the Host header has that name).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection

from aiohttp import web

from goqueue.errors import ForbiddenOrigin, UnsupportedMediaType

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORM_TYPES = ("text/plain", "multipart/form-data")
_HOSTS_MAX = 1000


class BrowserGuard:
    """Checks what a browser says of where a request comes from. Other clients say nothing of it."""

    def __init__(self, *, names: Collection[str], allowed_hosts: Collection[str], cors_origin: str) -> None:
        self._names = {name.lower() for name in (*names, *allowed_hosts, socket.gethostname())}
        self._is_strict = bool(allowed_hosts)
        self._cors_origin = cors_origin
        # Host headers that were looked at: clients send few different ones.
        self._good: set[str] = set()

    def check(self, request: web.Request) -> None:
        """Raise if a page that is not ours is behind the request."""
        headers = request.headers
        host = headers.get("Host", "")
        if host not in self._good:
            self._check_host(request, host)
        if request.method not in _SAFE or "Upgrade" in headers:
            self._check_origin(request, host)

    def _check_host(self, request: web.Request, host: str) -> None:
        name = _name_of(host)
        if name and not _is_address(name) and not name.endswith(".localhost") and name != "localhost":
            is_known = name in self._names
            if not is_known and (self._is_strict or _is_local(request)):
                error = ForbiddenOrigin(f"this broker is not {name[:200]!r}")
                error.field = "Host"
                error.hint = "use the address, or add the name to http.allowed_hosts"
                raise error
            if not is_known:
                return
        if len(self._good) < _HOSTS_MAX:
            self._good.add(host)

    def _check_origin(self, request: web.Request, host: str) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and origin != self._cors_origin and origin.partition("://")[2] != host:
            raise _forbidden(origin)
        if origin is None and request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
            raise _forbidden("another site")
        kind = request.headers.get("Content-Type", "").lower()
        if kind.startswith(_FORM_TYPES):
            raise UnsupportedMediaType(
                f"a body of type {kind[:80]!r} is not accepted", field="Content-Type", hint="send application/json"
            )


def _forbidden(origin: str) -> ForbiddenOrigin:
    error = ForbiddenOrigin(f"pages of {origin[:200]!r} may not use this API")
    error.field = "Origin"
    error.hint = "set http.cors_origin if they may"
    return error


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_local(request: web.Request) -> bool:
    """Whether the request came in on loopback."""
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    try:
        return name is not None and ipaddress.ip_address(name[0]).is_loopback
    except (ValueError, TypeError):
        return False
