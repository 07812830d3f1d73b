"""The transport: one broker, its leases and bindings, shared by the channels of a connection.

Options (`broker_transport_options`): `visibility_timeout` (60 seconds: how long after the death of a worker its
messages are redelivered), `group` ("celery"), `partitions` of new queues, `api_key`, `worker_polling_interval` (0.1
seconds: how often a worker looks for messages).
"""

from __future__ import annotations

import http.client
from contextlib import suppress
from queue import Empty
from typing import Any

from kombu.transport import base, virtual

from goqueue.celery.bindings import Bindings
from goqueue.celery.channel import Channel
from goqueue.prefork.http import BrokerError, Http, quoted
from goqueue.prefork.leases import Leases

_ALONE_S, _ROUND_S = 1.0, 0.1


class Transport(virtual.Transport):
    """`goqueue://host:port`, the address of the broker's HTTP API."""

    Channel = Channel
    default_port = 8080
    driver_type = "goqueue"
    driver_name = "goqueue"
    # Receiving waits at the broker.
    polling_interval = 0.01
    connection_errors = (*virtual.Transport.connection_errors, OSError, http.client.HTTPException)
    channel_errors = (*virtual.Transport.channel_errors, BrokerError)
    implements = base.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        options = client.transport_options
        self.group: str = options.get("group", "celery")
        self._partitions: int | None = options.get("partitions")
        api_key = options.get("api_key") or client.password
        self.http = Http(client.hostname or "127.0.0.1", int(client.port or self.default_port), api_key)
        self.leases = Leases(self.http, float(options.get("visibility_timeout", 60)))
        self.bindings = Bindings(self.http)
        self._poll_every_s = float(options.get("worker_polling_interval", 0.1))
        self._polling: Any = None

    def driver_version(self) -> str:
        """Our version."""
        from importlib.metadata import version

        return version("goqueue")

    def establish_connection(self) -> Any:
        """Make sure that a broker is there."""
        self.http.call("GET", "/version")
        return super().establish_connection()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:  # noqa: ARG002 - Kombu's
        """Have a worker's event loop look for messages; a worker that waited here would not hear its pool."""
        self._polling = loop.call_repeatedly(self._poll_every_s, self._poll)

    def _poll(self) -> None:
        for channel in list(self.channels):
            with suppress(Empty):
                channel.drain_events(timeout=0)

    def close_connection(self, connection: Any) -> None:
        """Give back what is unacknowledged, and close."""
        if self._polling is not None:
            self._polling.cancel()
        super().close_connection(connection)
        self.leases.close()
        self.http.close()

    def wait_s(self, timeout: float | None) -> float:
        """How long to wait for one queue: the fewer there are, the longer."""
        count = sum(len(channel._active_queues) for channel in self.channels)  # noqa: SLF001 - our own channels
        share_s = _ALONE_S if count <= 1 else _ROUND_S / count
        return share_s if timeout is None else min(share_s, timeout)

    def make_topic(self, topic: str) -> None:
        """Create a topic unless it exists."""
        body: dict[str, Any] = {"name": topic}
        if self._partitions is not None:
            body["num_partitions"] = self._partitions
        try:
            self.http.call("POST", "/topics", body)
        except BrokerError as refused:
            if refused.code != "topic_exists":
                raise

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its dead letters, as far as they exist."""
        for name in (topic, f"{topic}.dlq"):
            try:
                self.http.call("DELETE", f"/topics/{quoted(name)}")
            except BrokerError as refused:
                if refused.status != 404:
                    raise
