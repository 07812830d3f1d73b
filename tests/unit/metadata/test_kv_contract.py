"""What every `Kv` keeps: the model that simulations trust, and a real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import grpc
import pytest
from tests.etcd_server import EtcdServer, require_etcd

from goqueue.metadata.shared.etcd.connection import Connection, meaning
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.etcd.servers import alarms, members, server_at, version_problem, version_problems
from goqueue.metadata.shared.kv import (
    TXN_OPS_MAX,
    Compare,
    Delete,
    KeyValue,
    Kv,
    KvAmbiguous,
    KvCompacted,
    KvDelta,
    KvError,
    KvUnavailable,
    LeaseNotFound,
    On,
    Put,
)
from goqueue.testing.kv_model import KvModel


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    require_etcd()
    server = EtcdServer(tmp_path_factory.mktemp("etcd")).start()
    yield server
    server.stop()


@pytest.fixture(params=["model", "etcd"])
async def kv(request: pytest.FixtureRequest) -> AsyncIterator[Kv]:
    if request.param == "model":
        yield KvModel(leases_expire=True).client()
        return
    etcd = EtcdKv(Connection([request.getfixturevalue("server").url]))
    yield etcd
    await etcd.close()


@pytest.fixture
def at() -> str:
    """A prefix of its own for each test: the real server is shared."""
    return f"/{uuid4().hex}"


async def collected(kv: Kv, prefix: str, from_revision: int, count: int) -> list[KvDelta]:
    found: list[KvDelta] = []
    async with asyncio.timeout(10):
        async for delta in kv.watch(prefix, from_revision):
            found.append(delta)
            if len(found) == count:
                break
    return found


async def test_a_key_has_the_revisions_of_its_creation_and_of_its_last_write(kv: Kv, at: str) -> None:
    first = await kv.txn([], [Put(f"{at}/a", b"1")])
    second = await kv.txn([], [Put(f"{at}/a", b"2")])
    assert second.revision == first.revision + 1
    assert await kv.get(f"{at}/a") == KeyValue(f"{at}/a", b"2", first.revision, second.revision)
    assert await kv.get(f"{at}/b") is None


async def test_all_writes_of_a_transaction_have_one_revision_or_none_is_made(kv: Kv, at: str) -> None:
    made = await kv.txn([Compare(f"{at}/a", 0)], [Put(f"{at}/a", b"1"), Put(f"{at}/b", b"2")])
    found = await kv.range(f"{at}/")
    assert [(one.key, one.mod_revision) for one in found.pairs] == [
        (f"{at}/a", made.revision),
        (f"{at}/b", made.revision),
    ]
    refused = await kv.txn([Compare(f"{at}/c", 0), Compare(f"{at}/a", 1)], [Put(f"{at}/c", b"3")])
    assert not refused.succeeded
    assert refused.found == (None, KeyValue(f"{at}/a", b"1", made.revision, made.revision))
    assert await kv.get(f"{at}/c") is None


async def test_a_created_key_is_compared_by_its_creation_however_often_it_is_written(kv: Kv, at: str) -> None:
    created = await kv.txn([], [Put(f"{at}/s", b"1")])
    await kv.txn([], [Put(f"{at}/s", b"2")])
    assert (await kv.txn([Compare(f"{at}/s", created.revision, On.CREATED)], [Put(f"{at}/x", b"")])).succeeded
    assert not (await kv.txn([Compare(f"{at}/s", created.revision)], [Put(f"{at}/x", b"")])).succeeded


async def test_a_prefix_is_removed_at_once(kv: Kv, at: str) -> None:
    await kv.txn([], [Put(f"{at}/p/{number}", b"") for number in range(5)] + [Put(f"{at}/q", b"")])
    await kv.txn([], [Delete(f"{at}/p/", is_prefix=True), Delete(f"{at}/missing")])
    assert [one.key for one in (await kv.range(at)).pairs] == [f"{at}/q"]


async def test_a_watch_tells_each_transaction_once_and_in_order(kv: Kv, at: str) -> None:
    first = await kv.txn([], [Put(f"{at}/a", b"1"), Put(f"{at}/b", b"1")])
    await kv.txn([], [Put("/elsewhere", b"")])
    second = await kv.txn([], [Delete(f"{at}/a"), Put(f"{at}/c", b"1")])
    found = await collected(kv, at, first.revision, 2)
    assert [delta.revision for delta in found] == [first.revision, second.revision]
    assert [pair.key for pair in found[0].written] == [f"{at}/a", f"{at}/b"]
    assert ([pair.key for pair in found[1].written], found[1].removed) == ([f"{at}/c"], (f"{at}/a",))
    assert await collected(kv, at, first.revision + 1, 1) == found[1:]


async def test_a_watch_waits_for_what_is_to_come(kv: Kv, at: str) -> None:
    begin = (await kv.range(at)).revision + 1
    watching = asyncio.create_task(collected(kv, at, begin, 1))
    made = await kv.txn([], [Put(f"{at}/late", b"x" * 100_000)])
    (delta,) = await watching
    assert delta.revision == made.revision


async def test_a_transaction_of_the_largest_size_is_one_delta(kv: Kv, at: str) -> None:
    writes = [Put(f"{at}/{number:03}", b"x" * 5_000) for number in range(TXN_OPS_MAX)]
    made = await kv.txn([], writes)
    (delta,) = await collected(kv, at, made.revision, 1)
    assert len(delta.written) == TXN_OPS_MAX


async def test_more_operations_than_a_transaction_holds_are_refused(kv: Kv, at: str) -> None:
    with pytest.raises(ValueError):
        await kv.txn([], [Put(f"{at}/{number}", b"") for number in range(TXN_OPS_MAX + 1)])
    with pytest.raises(ValueError):
        await kv.txn([], [Put(f"{at}/twice", b""), Put(f"{at}/twice", b"")])


async def test_keys_of_a_lease_go_with_it_in_one_transaction(kv: Kv, at: str) -> None:
    lease = await kv.grant(60_000)
    await kv.txn([], [Put(f"{at}/a", b"", lease), Put(f"{at}/b", b"", lease), Put(f"{at}/c", b"")])
    kept = await kv.get(f"{at}/a")
    assert kept is not None
    assert kept.lease == lease
    await kv.keep_alive(lease)
    begin = (await kv.range(at)).revision + 1
    await kv.revoke(lease)
    (delta,) = await collected(kv, at, begin, 1)
    assert sorted(delta.removed) == [f"{at}/a", f"{at}/b"]
    with pytest.raises(LeaseNotFound):
        await kv.keep_alive(lease)
    with pytest.raises(LeaseNotFound):
        await kv.txn([], [Put(f"{at}/a", b"", lease)])
    await kv.revoke(lease)


async def test_a_lease_without_keep_alive_ends(kv: Kv, at: str) -> None:
    lease = await kv.grant(1_000)
    made = await kv.txn([], [Put(f"{at}/a", b"", lease)])
    (delta,) = await collected(kv, at, made.revision + 1, 1)
    assert delta.removed == (f"{at}/a",)


async def test_a_watch_from_behind_a_compaction_says_so(server: EtcdServer, at: str) -> None:
    etcd = EtcdKv(Connection([server.url]))
    first = await etcd.txn([], [Put(f"{at}/a", b"1")])
    last = await etcd.txn([], [Put(f"{at}/a", b"2")])
    server.compact(last.revision)
    with pytest.raises(KvCompacted):
        await collected(etcd, at, first.revision, 1)
    await etcd.close()


async def test_a_server_that_is_not_there_is_certainly_not_written_to_and_the_next_one_is_asked(
    server: EtcdServer, at: str
) -> None:
    etcd = EtcdKv(Connection(["http://127.0.0.1:1", server.url]))
    with pytest.raises(KvUnavailable):
        await etcd.txn([], [Put(f"{at}/a", b"")])
    assert (await etcd.txn([Compare(f"{at}/a", 0)], [Put(f"{at}/a", b"")])).succeeded
    await etcd.close()


async def test_a_server_tells_its_version_its_members_and_its_alarms(server: EtcdServer) -> None:
    connection = Connection([server.url])
    found = await server_at(connection, server.url)
    assert found.is_leader
    assert found.size_bytes >= found.used_bytes > 0
    assert version_problem(found.version) is None
    assert await version_problems(connection, (server.url, "http://127.0.0.1:1")) == []
    assert await alarms(connection) == []
    (member,) = await members(connection)
    assert (member.name, member.is_learner) == ("default", False)
    await connection.close()


@pytest.mark.parametrize("version", ["3.3.27", "3.4.20", "3.5.0", "3.5.2", "3.5.0-rc.1", "latest"])
def test_versions_that_lost_data_are_refused(version: str) -> None:
    assert version in str(version_problem(version))


@pytest.mark.parametrize("version", ["3.4.21", "3.4.34", "3.5.3", "3.6.1"])
def test_other_versions_are_taken(version: str) -> None:
    assert version_problem(version) is None


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", KvUnavailable),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out", KvAmbiguous),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", KvAmbiguous),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed", KvAmbiguous),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", KvAmbiguous),
        (grpc.StatusCode.UNKNOWN, "", KvAmbiguous),
        (grpc.StatusCode.INTERNAL, "", KvAmbiguous),
        (grpc.StatusCode.CANCELLED, "", KvAmbiguous),
        # etcd makes the change that takes it over its quota, and answers as if it had refused it.
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", KvAmbiguous),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", KvUnavailable),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", KvUnavailable),
        (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found", LeaseNotFound),
    ],
)
def test_only_what_was_certainly_not_made_is_called_so(
    code: grpc.StatusCode, details: str, kind: type[KvError]
) -> None:
    assert type(meaning(code, details)) is kind


class Refused(Exception):
    """As grpc tells of a call that etcd refused."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token"),
        # What a JWT meets after any change of etcd's users or roles.
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old"),
    ],
)
async def test_a_token_that_etcd_takes_no_more_is_not_shown_again(code: grpc.StatusCode, details: str) -> None:
    connection = Connection(["http://127.0.0.1:1"])
    connection._token = "former"
    assert isinstance(connection.failed(Refused(code, details)), KvUnavailable)
    assert token_of(connection) is None
    await connection.close()


def token_of(connection: Connection) -> str | None:
    return connection._token
