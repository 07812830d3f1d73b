"""Where a client connects to, out of what the program says and what it leaves to the environment."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.client.credentials import Credentials, from_environment
from goqueue.client.durations import Duration
from goqueue.client.environment import DEFAULT_TIMEOUT_S, environment_timeout_s, resolve
from goqueue.client.errors import InvalidArgument
from goqueue.client.retry import RetryPolicy
from goqueue.client.transport import Transport


def is_grpc(server: str | Sequence[str]) -> bool:
    """Whether the address is one of the gRPC API, or the first of several is."""
    first = server if isinstance(server, str) else next(iter(server), "")
    return first.strip().startswith(("grpc://", "grpcs://"))


def open_transport(
    server: str | Sequence[str] | None,
    *,
    context: str | None,
    timeout: Duration | None,
    credentials: Credentials,
    retry: RetryPolicy | None,
    connections_max: int,
) -> Transport:
    """A transport to the broker that is meant."""
    if server is None:
        found = resolve(context=context)
        server, default_s = found.server, found.timeout_s
        credentials = credentials.over(found.credentials)
    elif context is not None:
        raise TypeError("server and context are both given: a context has its own address")
    else:
        # A key that is stored for another broker is not sent to this one.
        credentials = credentials.over(from_environment())
        default_s = environment_timeout_s() or DEFAULT_TIMEOUT_S
    if is_grpc(server):
        # Imported only for who asks for it: grpcio is an extra, and takes its time.
        try:
            from goqueue.client.grpc.transport import GrpcTransport
        except ModuleNotFoundError as missing:
            raise InvalidArgument(f"{missing.name} is not installed", "pip install 'goqueue[grpc]'") from missing
        return GrpcTransport(
            server, timeout=default_s if timeout is None else timeout, retry=retry, credentials=credentials
        )
    return Transport(
        server,
        timeout=default_s if timeout is None else timeout,
        retry=retry,
        credentials=credentials,
        connections_max=connections_max,
    )
