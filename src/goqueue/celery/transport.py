"""The transport: one broker, its leases and bindings, shared by the channels of a connection.

Options (`broker_transport_options`): `visibility_timeout` (60 seconds: how long after the death of a worker its
messages are redelivered), `group` ("celery"), `partitions` of new queues, `api_key`, `worker_polling_interval` (0.1
seconds: how often an idle worker looks for messages; one that has just received or finished some looks again at once).
TLS is Celery's own setting, `broker_use_ssl`.
"""

from __future__ import annotations

import http.client
import logging
from queue import Empty
from typing import Any

from kombu.transport import base, virtual

from goqueue.celery.bindings import Bindings
from goqueue.celery.channel import Channel
from goqueue.client.credentials import Credentials
from goqueue.prefork.http import BrokerError, Http, quoted
from goqueue.prefork.leases import Leases

_log = logging.getLogger("goqueue.celery")
_ALONE_S, _ROUND_S = 1.0, 0.1
# How API keys begin.
KEY_PREFIX = "gq_"


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
        self.http = Http(
            client.hostname or "127.0.0.1",
            int(client.port or self.default_port),
            _credentials(client, options.get("api_key")),
            is_tls=bool(client.ssl),
        )
        self.leases = Leases(self.http, float(options.get("visibility_timeout", 60)))
        self.bindings = Bindings(self.http)
        self._poll_every_s = float(options.get("worker_polling_interval", 0.1))
        self._loop: Any = None
        self._polling: Any = None
        self._will_poll = False

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
        self._loop = loop
        self._polling = loop.call_repeatedly(self._poll_every_s, self._poll)

    def poll_soon(self) -> None:
        """Look for messages in the next round of the worker's event loop, if there is one."""
        if self._loop is not None and not self._will_poll:
            self._will_poll = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._will_poll = False
        for channel in list(self.channels):
            try:
                channel.drain_events(timeout=0)
            except Empty:
                continue
            except BrokerError as refused:
                # Kombu's loop would end on it; the next round asks again.
                _log.warning("no messages could be received: %s", refused)
                continue
            self.poll_soon()

    def deliver_broadcasts(self) -> None:
        """Deliver what was sent to all workers, in every channel."""
        for channel in list(self.channels):
            channel.deliver_broadcasts()

    def close_connection(self, connection: Any) -> None:
        """Give back what is unacknowledged, and close."""
        if self._polling is not None:
            self._polling.cancel()
            self._loop = None
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


def _credentials(client: Any, api_key: str | None) -> Credentials:
    """A key from the options or the address, or user and password of the address; certificates by `broker_use_ssl`."""
    files = client.ssl if isinstance(client.ssl, dict) else {}
    is_key = not client.userid or str(client.password).startswith(KEY_PREFIX)
    key = api_key or (client.password if is_key else None)
    return Credentials(
        api_key=key or None,
        user=None if key else client.userid or None,
        password=None if key else client.password or None,
        ca=files.get("ca_certs"),
        certificate=files.get("certfile"),
        key=files.get("keyfile"),
    )
