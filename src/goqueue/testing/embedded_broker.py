"""EmbeddedBroker: a whole broker inside a test's process, on real ports, with a clock of its own.

It is the broker that `goqueue server` runs, put together at the same place. Any client can
talk to it; only its time and its directory belong to the test.

    with EmbeddedBroker() as broker:
        broker.client().create_topic("orders")
        ...
        broker.clock.advance(days=3)
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from goqueue.node.assemble import assemble
from goqueue.node.config.load_config import load
from goqueue.node.node import Node
from goqueue.testing.broker_clock import BrokerClock
from goqueue.testing.settling_loop import SettlingLoop

if TYPE_CHECKING:
    from goqueue.client import Client as AsyncClient
    from goqueue.client.sync import Client

Setting = str | int | float | bool
_ANY_PORT = "127.0.0.1:0"


class EmbeddedBroker:
    """Started once or more; it keeps its directory, its ports and its clock over `restart()`."""

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        settings: Mapping[str, Setting] | None = None,
        now: datetime | None = None,
        manual_clock: bool = True,
    ) -> None:
        """Without `data_dir` it has a temporary one, which goes with `close`.

        `settings` are those of the reference page: `{"log.segment_bytes": 1 << 20}`. The manual
        clock begins at `now`; with `manual_clock=False` time passes as it does outside.
        """
        self._own_dir = tempfile.mkdtemp(prefix="goqueue-test-") if data_dir is None else None
        self._settings: dict[str, Setting] = {
            "listeners.kafka": _ANY_PORT,
            "listeners.http": _ANY_PORT,
            **(settings or {}),
            "broker.data_dir": str(data_dir or self._own_dir),
        }
        self._clock = BrokerClock(now) if manual_clock else None
        self._loop: SettlingLoop | None = None
        self._node: Node | None = None
        self._clients: list[Client] = []

    # --- where it is ----------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """For Kafka clients: `127.0.0.1:port`."""
        return str(self._running.kafka)

    @property
    def http_url(self) -> str:
        """For HTTP clients: `http://127.0.0.1:port`."""
        return str(self._running.http_url)

    @property
    def data_dir(self) -> Path:
        """Where its logs are."""
        return Path(str(self._settings["broker.data_dir"]))

    @property
    def clock(self) -> BrokerClock:
        """Its time, which stands still until it is advanced."""
        if self._clock is None:
            raise RuntimeError("this broker runs by the machine's time; make one with manual_clock=True")
        return self._clock

    def client(self, **options: Any) -> Client:
        """A `goqueue.client` whose calls block. It is closed with the broker, if not before."""
        from goqueue.client.sync import connect

        client = connect(self.http_url, **options)
        self._clients.append(client)
        return client

    def async_client(self, **options: Any) -> AsyncClient:
        """A `goqueue.client` to be awaited: `async with broker.async_client() as client`."""
        from goqueue.client import connect

        return connect(self.http_url, **options)

    # --- its life -------------------------------------------------------------------------

    def start(self) -> Self:
        """Return once it serves. Raises a `GoQueueError` if it cannot."""
        if self._node is not None:
            return self
        config = load(None, {}, {path: str(value) for path, value in self._settings.items()})
        loop = SettlingLoop("goqueue-broker")
        node = assemble(config, clock=self._clock)
        if self._clock is not None:
            self._clock.move_in(loop)
        try:
            running = loop.run(node.start())
        except BaseException:
            self._move_out(loop)
            raise
        self._loop, self._node = loop, node
        # The ports it got are the ports it will have again.
        self._settings |= {
            f"listeners.{name}": f"{'tls://' if name in running.tls else ''}{address}"
            for name, address in running.listeners.items()
            if name in {"kafka", "http"}
        }
        return self

    def stop(self) -> None:
        """Stop in order; clients made here are closed first. A second stop does no harm."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.close()
        node, loop, self._node, self._loop = self._node, self._loop, None, None
        if node is not None and loop is not None:
            try:
                loop.run(node.stop())
            finally:
                self._move_out(loop)

    def restart(self) -> Self:
        """Stop, and start again with the same data, ports and time."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop for good, and delete the directory if it was a temporary one."""
        self.stop()
        if self._own_dir is not None:
            shutil.rmtree(self._own_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _running(self) -> Any:
        if self._node is None:
            raise RuntimeError("the broker is not running: use it inside `with`, or call start()")
        return self._node.running

    def _move_out(self, loop: SettlingLoop) -> None:
        loop.close()
        if self._clock is not None:
            self._clock.move_in(None)
