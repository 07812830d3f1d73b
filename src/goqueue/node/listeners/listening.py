"""Sockets for our listeners, bound before anything else is touched.

Binding early tells a free port 0 to everyone who must know it, and finds an address that
is in use while there is nothing yet to clean up. Nothing is accepted until a
server starts to listen.
"""

from __future__ import annotations

import errno
import os
import socket

from goqueue.errors import GoQueueError
from goqueue.node.config.addresses import Address


class CannotListen(GoQueueError):
    """An address that the system does not give us."""


def bind(address: Address) -> socket.socket:
    """A socket bound to the address; raises `CannotListen` with the reason in words."""
    try:
        family, kind, protocol, _, place = _resolve(address)
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"cannot listen on {address}: {error.strerror}") from error
    try:
        # A restarted broker must not wait for the connections of its former life to time out.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind(place)
    except OSError as error:
        bound.close()
        reason = "the address is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise CannotListen(f"cannot listen on {address}: {reason}") from error
    return bound


def bound_address(address: Address, listener: socket.socket) -> Address:
    """The address as it was asked for, with the port that was really taken."""
    return Address(address.host, listener.getsockname()[1])


def _resolve(address: Address) -> tuple[int, int, int, str, tuple[object, ...]]:
    # One socket per listener, so that port 0 is one port; IPv4 first, as for `localhost`.
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return found[0]
