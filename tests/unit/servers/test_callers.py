"""In whose name a request is served: from the socket and the headers to the services."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec import structs
from tests.unit.codec.kafka.kio_values import request_frame

from goqueue.broker.topics import NewTopic
from goqueue.caller import ANONYMOUS, Caller
from goqueue.config import Config
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.groups.service import NewOffset
from goqueue.node.assemble import assemble
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.callers import BOUND, BindCaller, bound, bundles
from goqueue.servers.http.app import make_app
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

ALICE = Caller(principal="User:alice", client_id="app", address="10.0.0.7", protocol="kafka")
METADATA = 3


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    node = assemble(Config(), files=MemoryFiles(), clock=ManualClock(), rng=seeded_rng(1), offload=InlineOffload())
    yield (await node.start()).services
    await node.stop()


class Recording:
    """A doorkeeper that remembers whom it let in."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []

    def admit(self, services: Services, caller: Caller) -> Services:
        self.callers.append(caller)
        return BindCaller().admit(services, caller)


class Observer:
    """Keeps what delivery tells: which method, and in whose name."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Caller]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda caller, *_: self.told.append((name, caller))


def test_every_service_that_records_its_caller_is_bound_to_it(services: Services) -> None:
    wanting = {
        name
        for name in services.__struct_fields__
        for _, method in inspect.getmembers(getattr(services, name), inspect.ismethod)
        if "caller" in inspect.signature(method).parameters and name != "doorkeeper"
    }
    assert wanting == set(BOUND)


async def test_services_are_used_as_before_and_are_told_who_calls(services: Services) -> None:
    told: list[tuple[Caller, str]] = []
    services.topics._on_change = (lambda caller, event: told.append((caller, type(event).__name__)),)
    mine = services.for_caller(ALICE)
    await mine.topics.create(NewTopic("t", 1))
    await mine.topics.alter_config("t", {"retention.ms": "1000000"})
    await mine.topics.add_partitions("t", 2)
    await mine.topics.delete("t")
    await mine.topics.ensure("auto")
    assert told == [
        (ALICE, name)
        for name in ("TopicCreated", "TopicConfigChanged", "PartitionsAdded", "TopicDeleted", "TopicCreated")
    ]
    assert mine.caller is ALICE
    assert services.caller is ANONYMOUS
    assert mine.topics.get("auto") == services.topics.get("auto")
    assert mine.identity is services.identity


async def test_a_second_caller_is_not_taken_for_the_first(services: Services) -> None:
    told: list[str] = []
    services.topics._on_change = (lambda caller, _event: told.append(caller.client_id),)
    first, second = (services.for_caller(structs.replace(ALICE, client_id=name)) for name in ("first", "second"))
    for number, mine in enumerate((first, second, first, second.for_caller(ALICE))):
        await mine.topics.create(NewTopic(f"t{number}", 1))
    assert told == ["first", "second", "first", "app"]


async def test_deliveries_settlements_and_commits_are_told_with_their_caller(services: Services) -> None:
    observer, commits = Observer(), []
    services.delivery._observers = (observer,)
    services.groups._on_commit = (lambda caller, group, offsets, results: commits.append((caller, group)),)
    mine = services.for_caller(ALICE)
    await mine.topics.create(NewTopic("t", 1))
    place = TopicPartition("t", 0)
    await mine.publish.publish_records("t", [NewRecord(None, b"a"), NewRecord(None, b"b")], acks=Acks.LEADER)
    found = await mine.delivery.receive(Receive("jobs", "c", [place], 1))
    await mine.delivery.settle([Settlement(found[0].receipt, Action.ACK)])
    assert await mine.delivery.acquire("jobs", place, "d", limit=1)
    await mine.groups.commit("readers", [NewOffset("t", 0, 1)])
    assert observer.told == [("delivered", ALICE), ("settled", ALICE), ("acquired", ALICE)]
    assert commits == [(ALICE, "readers")]


async def test_nothing_is_told_of_a_receive_that_found_nothing(services: Services) -> None:
    observer = Observer()
    services.delivery._observers = (observer,)
    await services.topics.create(NewTopic("t", 1))
    assert await services.delivery.receive(Receive("jobs", "c", [TopicPartition("t", 0)], 1)) == []
    assert observer.told == []


def test_values_of_a_bound_service_are_asked_for_each_time() -> None:
    class Counter:
        count = 0

        def add(self, *, caller: Caller) -> str:
            self.count += 1
            return caller.client_id

    counter = Counter()
    mine: Any = bound(counter, ALICE)
    assert (mine.count, mine.add(), mine.count, mine.add(), mine.count) == (0, "app", 1, "app", 2)


async def test_a_doorkeeper_puts_its_own_objects_under_the_same_names(services: Services) -> None:
    class Closed:
        def __init__(self, _topics: object, caller: Caller) -> None:
            self.caller = caller

        def list(self) -> str:
            return f"nothing for {self.caller.principal}"

    class Strict:
        def __init__(self) -> None:
            self.admit = bundles({**BOUND, "topics": Closed})

    guarded = structs.replace(services, doorkeeper=Strict())
    assert guarded.for_caller(ALICE).topics.list() == "nothing for User:alice"  # type: ignore[comparison-overlap]
    assert guarded.for_caller(ALICE).publish.append is not None


async def test_a_kafka_connection_is_one_caller_for_each_client_id(services: Services) -> None:
    door = Recording()
    dispatcher, peer = Dispatcher(structs.replace(services, doorkeeper=door)), Peer("10.0.0.7")
    for client_id in ("a", "a", "b", "a"):
        dispatcher.take(request_frame(METADATA, 12, {"topics": []}, client_id=client_id), peer)
    assert [(one.client_id, one.address, one.protocol) for one in door.callers] == [
        ("a", "10.0.0.7", "kafka"),
        ("b", "10.0.0.7", "kafka"),
    ]
    peer.become("User:alice", "shop")
    dispatcher.take(request_frame(METADATA, 12, {"topics": []}, client_id="a"), peer)
    assert (door.callers[-1].principal, door.callers[-1].tenant, door.callers[-1].client_id) == (
        "User:alice",
        "shop",
        "a",
    )


def test_a_client_that_always_names_itself_anew_is_not_remembered_for_ever() -> None:
    class Admitting:
        def for_caller(self, _caller: Caller) -> None: ...

    dispatcher, peer = Dispatcher(Admitting()), Peer("h")  # type: ignore[arg-type]
    for number in range(1000):
        dispatcher.take(request_frame(18, 3, {}, client_id=str(number)), peer)
    assert len(peer._contexts) <= 64


async def test_an_http_request_is_a_caller_of_its_own(services: Services) -> None:
    door = Recording()
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with TestClient(TestServer(make_app(structs.replace(services, doorkeeper=door), lambda _: None))) as client:
        await client.get("/topics", headers={"X-Client-Id": "shop", "traceparent": trace, "X-Request-Id": "r1"})
        await client.get("/topics", headers={"User-Agent": "curl/8"})
        await client.get("/topics", headers={"User-Agent": "", "X-Client-Id": "x" * 1000})
    first, second, third = door.callers
    assert first == Caller(client_id="shop", address="127.0.0.1", protocol="http", trace=trace, request_id="r1")
    assert (second.client_id, second.trace) == ("curl/8", "")
    assert second.request_id
    assert len(third.client_id) == 256
