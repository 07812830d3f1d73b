"""The whole node in this process: what it takes, and that it gives everything back."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from goqueue.client.wire import WireClient
from goqueue.config import BrokerConfig, Config, ListenersConfig
from goqueue.errors import ConfigError, GoQueueError, ShuttingDown
from goqueue.node.assemble import assemble
from goqueue.node.listeners import claims
from goqueue.node.listeners.listening import CannotListen, bind


def config(tmp_path: Path, **listeners: Any) -> Config:
    where: dict[str, Any] = {"kafka": "127.0.0.1:0", "http": "127.0.0.1:0"} | listeners
    return Config(broker=BrokerConfig(data_dir=str(tmp_path / "data")), listeners=ListenersConfig(**where))


def open_files() -> int:
    return psutil.Process().num_fds()


async def test_a_stopped_node_has_given_everything_back(tmp_path: Path) -> None:
    """Handles, threads and tasks that outlived what they were for."""
    before = open_files(), threading.active_count(), len(asyncio.all_tasks())
    node = assemble(config(tmp_path))
    running = await node.start()
    await running.services.topics.ensure("orders")
    with socket.create_connection((running.kafka.host, running.kafka.port)):
        await node.stop()
    await node.stop()
    assert (open_files(), threading.active_count(), len(asyncio.all_tasks())) == before


async def test_a_node_that_cannot_start_gives_back_what_it_had_taken(tmp_path: Path) -> None:
    (tmp_path / "data/metadata").mkdir(parents=True)
    (tmp_path / "data/metadata/00000000000000000000.log").mkdir()
    before = open_files()
    node = assemble(config(tmp_path))
    with pytest.raises((GoQueueError, OSError)):
        await node.start()
    assert open_files() == before
    with pytest.raises(ShuttingDown):
        _ = node.running


async def test_two_nodes_never_share_a_directory(tmp_path: Path) -> None:
    first, second = assemble(config(tmp_path)), assemble(config(tmp_path))
    await first.start()
    with pytest.raises(GoQueueError, match="in use by another process"):
        await second.start()
    await first.stop()
    third = assemble(config(tmp_path))
    await third.start()
    await third.stop()


async def test_the_advertised_address_is_what_clients_are_told(tmp_path: Path) -> None:
    node = assemble(config(tmp_path, advertised_kafka="broker.example:19092"))
    identity = (await node.start()).services.identity
    assert (identity.kafka_host, identity.kafka_port) == ("broker.example", 19092)
    await node.stop()


async def test_an_address_lost_between_bind_and_listen_is_a_clear_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals: list[socket.socket] = []

    def bind_and_be_outrun(address: object) -> socket.socket:
        bound = bind(address)  # type: ignore[arg-type]
        rival = socket.socket()
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rival.bind(bound.getsockname())
        rival.listen()
        rivals.append(rival)
        return bound

    monkeypatch.setattr(claims, "bind", bind_and_be_outrun)
    with pytest.raises(CannotListen, match="cannot listen on 127"):
        await assemble(config(tmp_path)).start()
    for rival in rivals:
        rival.close()


async def test_the_cluster_keeps_its_id_over_restarts(tmp_path: Path) -> None:
    ids = set()
    for _ in range(2):
        node = assemble(config(tmp_path))
        ids.add((await node.start()).services.identity.cluster_id)
        await node.stop()
    assert len(ids) == 1


async def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ConfigError, match="data directory"):
        await assemble(config(tmp_path)).start()


async def test_clients_of_a_listener_are_told_the_address_of_that_listener(tmp_path: Path) -> None:
    named = ("inside=kafka://127.0.0.1:0?advertised=inside.example:19094",)
    node = assemble(config(tmp_path, named=named))
    try:
        running = await node.start()
        told = {}
        for name, address in running.listeners.items():
            if name != "http":
                told[name] = await asyncio.to_thread(_told, str(address))
    finally:
        await node.stop()
    assert told == {"kafka": ("127.0.0.1", running.kafka.port), "inside": ("inside.example", 19094)}


def _told(address: str) -> tuple[str, int]:
    with WireClient(address) as client:
        (broker,) = client.any_broker().call(3, 10, {"topics": []}).brokers
        return broker.host, broker.port
