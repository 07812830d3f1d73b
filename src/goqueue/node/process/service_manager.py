"""Tell systemd when the broker serves and when it stops (the protocol of sd_notify, in Python alone).

A unit with `Type=notify` counts as started when READY=1 arrives, so what depends on the broker starts when it serves
and not before. Outside of systemd the variable NOTIFY_SOCKET is not set, and nothing is sent.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

VARIABLE = "NOTIFY_SOCKET"
_log = logging.getLogger("goqueue.node")


@contextmanager
def announced(status: str, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Say READY with a line for `systemctl status`; say STOPPING at the end."""
    notify(f"READY=1\nSTATUS={status}", environ)
    try:
        yield
    finally:
        notify("STOPPING=1\nSTATUS=stopping", environ)


def notify(message: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send one message; whether it was sent. A service manager that does not listen is no reason to stop."""
    address = environ.get(VARIABLE, "")
    if not address:
        return False
    # systemd writes a socket of the abstract namespace with an @ in front.
    place = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sender:
            sender.sendto(message.encode(), place)
    except OSError as error:
        _log.warning("could not notify the service manager at %s=%s: %s", VARIABLE, address, error)
        return False
    return True
