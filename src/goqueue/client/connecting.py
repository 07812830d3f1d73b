"""Where a client connects to, out of what the program says and what it leaves to the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence

from goqueue.client.durations import Duration
from goqueue.client.environment import DEFAULT_TIMEOUT_S, environment_timeout_s, resolve
from goqueue.client.errors import InvalidArgument
from goqueue.client.retry import RetryPolicy
from goqueue.client.transport import Transport


def is_grpc(server: str | Sequence[str]) -> bool:
    """Whether the address is one of the gRPC API, or the first of several is."""
    first = server if isinstance(server, str) else next(iter(server), "")
    return first.strip().startswith("grpc://")


def open_transport(
    server: str | Sequence[str] | None,
    *,
    context: str | None,
    timeout: Duration | None,
    api_key: str | None,
    retry: RetryPolicy | None,
    connections_max: int,
) -> Transport:
    """A transport to the broker that is meant."""
    if server is None:
        found = resolve(context=context)
        server, api_key, default_s = found.server, api_key or found.api_key, found.timeout_s
    elif context is not None:
        raise TypeError("server and context are both given: a context has its own address")
    else:
        # A key that is stored for another broker is not sent to this one.
        api_key = api_key or os.environ.get("GOQUEUE_API_KEY")
        default_s = environment_timeout_s() or DEFAULT_TIMEOUT_S
    if is_grpc(server):
        # Imported only for who asks for it: grpcio is an extra, and takes its time.
        try:
            from goqueue.client.grpc.transport import GrpcTransport
        except ModuleNotFoundError as missing:
            raise InvalidArgument(f"{missing.name} is not installed", "pip install 'goqueue[grpc]'") from missing
        return GrpcTransport(server, timeout=default_s if timeout is None else timeout, retry=retry, api_key=api_key)
    return Transport(
        server,
        timeout=default_s if timeout is None else timeout,
        retry=retry,
        api_key=api_key,
        connections_max=connections_max,
    )
