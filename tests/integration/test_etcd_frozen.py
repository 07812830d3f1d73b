"""A real etcd server that is frozen, or has no room: what goes on with the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.etcd_server import EtcdServer, require_etcd

from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.kv import KvAmbiguous, KvDelta, KvError, KvUnavailable, Put

DEADLINE_S = 30


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[EtcdServer, EtcdServer]]:
    """Two that know nothing of each other: which of them is asked can be told by what it has."""
    require_etcd()
    first, second = (EtcdServer(tmp_path / name).start() for name in ("first", "second"))
    yield first, second
    first.stop()
    second.stop()


@pytest.fixture
async def kv(servers: tuple[EtcdServer, EtcdServer]) -> AsyncIterator[EtcdKv]:
    kv = EtcdKv(Connection([server.url for server in servers]))
    yield kv
    await kv.close()


async def watch(kv: EtcdKv, seen: asyncio.Queue[KvDelta]) -> None:
    async for delta in kv.watch("/", 1):
        seen.put_nowait(delta)


async def test_a_watch_moves_with_the_calls_from_a_server_that_is_frozen(
    kv: EtcdKv, servers: tuple[EtcdServer, EtcdServer]
) -> None:
    """It waited for the frozen one for up to a minute, and with it every partition that the lost node had led."""
    seen: asyncio.Queue[KvDelta] = asyncio.Queue()
    lease = await kv.grant(60_000)
    watching = asyncio.create_task(watch(kv, seen))
    await kv.txn([], [Put("/one", b"1")])
    assert [pair.key for pair in (await seen.get()).written] == ["/one"]

    servers[0].freeze()
    with pytest.raises(KvError):
        await kv.keep_alive(lease)

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(KvUnavailable, match="another server is asked"):
            await watching
        watching = asyncio.create_task(watch(kv, seen))
        await kv.txn([], [Put("/two", b"2")])
        assert [pair.key for pair in (await seen.get()).written] == ["/two"]
    watching.cancel()


async def test_a_watch_whose_task_is_cancelled_is_cancelled(kv: EtcdKv) -> None:
    seen: asyncio.Queue[KvDelta] = asyncio.Queue()
    watching = asyncio.create_task(watch(kv, seen))
    await kv.txn([], [Put("/one", b"1")])
    await seen.get()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


async def test_a_watch_stays_where_it_is_while_a_store_without_room_refuses_change_after_change(tmp_path: Path) -> None:
    """Each refusal moved calls and watches to the next server: no watch lived for longer than a moment."""
    require_etcd()
    full = EtcdServer(tmp_path / "full", options=["--quota-backend-bytes=100000", "--backend-batch-interval=1ms"])
    other = EtcdServer(tmp_path / "other")
    full.start()
    other.start()
    connection = Connection([full.url, other.url])
    kv = EtcdKv(connection)
    seen: asyncio.Queue[KvDelta] = asyncio.Queue()
    watching = asyncio.create_task(watch(kv, seen))
    try:
        refused = 0
        async with asyncio.timeout(DEADLINE_S):
            while refused < 5:
                try:
                    await kv.txn([], [Put("/large", bytes(100_000))])
                    await seen.get()
                except KvAmbiguous as error:
                    refused += "space exceeded" in str(error)
        assert connection.endpoint == full.url
        assert not watching.done()
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await kv.close()
        full.stop()
        other.stop()


async def test_a_stream_that_is_being_opened_while_the_server_changes_is_not_waited_for_without_end(
    servers: tuple[EtcdServer, EtcdServer],
) -> None:
    """It was cancelled before it was open, and the session of a node was never renewed again."""
    connection = Connection([server.url for server in servers])
    kv = EtcdKv(connection)
    lease = await kv.grant(60_000)

    async def renew() -> None:
        for _ in range(100):
            with suppress(KvError):
                await kv.keep_alive(lease)

    async def move() -> None:
        while True:
            connection.next_server()
            await asyncio.sleep(0.001)

    moving = asyncio.create_task(move())
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*(renew() for _ in range(4)))
    moving.cancel()
    await kv.close()
