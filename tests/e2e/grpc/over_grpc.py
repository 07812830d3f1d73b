"""Runs the tests of the Python client over gRPC: what they connect to by http:// is reached by grpc://."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.e2e.process import BrokerProcess

from goqueue.client import connection
from goqueue.client.connecting import open_transport
from goqueue.client.grpc.transport import GrpcTransport

# Every broker that a fixture of this folder has started.
BROKERS: list[BrokerProcess] = []


@pytest.fixture(autouse=True)
def _over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(server: str | Sequence[str], **options: Any) -> GrpcTransport:
        given = server.split(",") if isinstance(server, str) else list(server)
        reached = {one.http: one.grpc for one in BROKERS}
        addresses = [one.removeprefix("http://").removeprefix("grpc://") for one in given]
        transport = open_transport([f"grpc://{reached.get(one, one)}" for one in addresses], **options)
        assert isinstance(transport, GrpcTransport)
        return transport

    monkeypatch.setattr(connection, "open_transport", opened)
