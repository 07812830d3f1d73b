"""What is open ends within a second when its principal loses an access; what is valid goes on while others change."""

from __future__ import annotations

import asyncio
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import grpc
import pytest
from confluent_kafka import Consumer, Producer
from tests.e2e.secured import PASSWORD, SecuredBroker, soon

from goqueue.client import connect
from goqueue.client.sync import connect as connect_blocking
from goqueue.protos import consume_pb2, consume_pb2_grpc, publish_pb2_grpc, queue_pb2, queue_pb2_grpc

SECONDS_MAX = 1.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("revoked"))
    broker.done("POST", "/topics", {"name": "orders", "num_partitions": 1})
    try:
        yield broker
    finally:
        broker.stop()


def channel(secured: SecuredBroker) -> grpc.Channel:
    return grpc.secure_channel(secured.grpc, grpc.ssl_channel_credentials(secured.ca.read_bytes()))


# --- ways to wait for something -----------------------------------------------------------
# Each begins to wait, says so, and returns what ended it.


def long_poll(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    path = "/topics/orders/partitions/0/messages?from=latest&wait=30s"
    return _http(secured, shown, begun, "GET", path)


def receive(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    return _http(secured, shown, begun, "POST", "/topics/orders/receive", b'{"group": "g", "wait": "30s"}')


def stream(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    return _http(secured, shown, begun, "GET", "/topics/orders/messages/stream?from=latest&format=sse")


def _http(
    secured: SecuredBroker, shown: str, begun: Callable[[], None], method: str, path: str, body: bytes = b""
) -> object:
    host, _, port = secured.http.removeprefix("https://").rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        secured.tls().wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {shown}\r\n"
        wrapped.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        begun()
        try:
            while data := wrapped.recv(65536):
                # A stream says at once that it is one; anything else would be an answer.
                assert b"200 OK" not in data or b"event-stream" in data, data
        except (ssl.SSLError, OSError) as error:
            return error
    return None


def queue_connection(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    async def wait() -> object:
        import aiohttp
        import msgspec

        headers = {"Authorization": shown}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.ws_connect(
                f"{secured.http}/queue/connection", ssl=secured.tls(), protocols=("goqueue.queue.v1",)
            ) as opened,
        ):
            frame = ("receive", 1, "orders", "g", "me", 1, 30_000)
            await opened.send_bytes(msgspec.msgpack.encode(frame))
            begun()
            return (await opened.receive()).type

    return asyncio.run(wait())


def grpc_consume(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    with channel(secured) as opened:
        stub = consume_pb2_grpc.ConsumeServiceStub(opened)
        request = consume_pb2.ConsumeRequest(topic="orders", start_position=2)
        return _ended(stub.Consume(request, timeout=20, metadata=(("authorization", shown),)), begun)


def grpc_subscribe(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    with channel(secured) as opened:
        stub = consume_pb2_grpc.ConsumeServiceStub(opened)
        request = consume_pb2.SubscribeRequest(group="subscribed", topics=["orders"], client_id="me")
        return _ended(stub.Subscribe(request, timeout=20, metadata=(("authorization", shown),)), begun)


def grpc_work(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    requests.put(queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="orders", group="g", credit=1)))
    with channel(secured) as opened:
        stub = queue_pb2_grpc.QueueServiceStub(opened)
        call = stub.Work(iter(requests.get, None), timeout=20, metadata=(("authorization", shown),))
        return _ended(call, begun, requests)


def grpc_publish(secured: SecuredBroker, shown: str, begun: Callable[[], None]) -> object:
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with channel(secured) as opened:
        stub = publish_pb2_grpc.PublishServiceStub(opened)
        call = stub.PublishStream(iter(requests.get, None), timeout=20, metadata=(("authorization", shown),))
        return _ended(call, begun, requests)


def _ended(call: Any, begun: Callable[[], None], requests: queue.SimpleQueue[Any] | None = None) -> object:
    begun()
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        return error.code()  # type: ignore[attr-defined]
    finally:
        if requests is not None:
            requests.put(None)
    return None


WAYS = [long_poll, receive, stream, queue_connection, grpc_consume, grpc_subscribe, grpc_work, grpc_publish]


@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)
def test_what_waits_ends_within_a_second_of_a_revocation(secured: SecuredBroker, way: Callable[..., object]) -> None:
    name = f"{way.__name__}-user"
    secured.user(name, "consumer", "producer")
    made = secured.done("POST", "/admin/security/keys", {"principal": f"User:{name}"})
    begun = threading.Event()
    ended: list[tuple[float, object]] = []

    def wait() -> None:
        outcome = way(secured, f"Bearer {made['key']}", begun.set)
        ended.append((time.monotonic(), outcome))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert begun.wait(10)
    # A login is in the audit log as soon as the request is under way.
    soon(lambda: any(one["principal"] == f"User:{name}" and one["event"] == "login" for one in secured.audit()))
    time.sleep(0.2)
    assert not ended, ended
    revoked_at = time.monotonic()
    secured.done("DELETE", f"/admin/security/keys/{made['id']}")
    thread.join(10)
    assert ended, "it still waits"
    assert ended[0][0] - revoked_at < SECONDS_MAX, ended


# --- rotation under load ------------------------------------------------------------------


class Load:
    """Clients of every kind that work on, each with credentials that stay valid."""

    def __init__(self, secured: SecuredBroker) -> None:
        self.secured = secured
        for name in ("steady-kafka", "steady-http", "steady-reader"):
            secured.user(name, "producer", "consumer")
        self.key = secured.done("POST", "/admin/security/keys", {"principal": "User:steady-http"})["key"]
        self.stop = threading.Event()
        self.problems: list[object] = []
        self.counts = {"publish": 0, "http": 0, "read": 0, "connect": 0}
        self.threads = [threading.Thread(target=self._run, args=(name,)) for name in self.counts]

    def _run(self, name: str) -> None:
        try:
            getattr(self, f"_{name}")()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what this test is about
            self.problems.append(error)

    def _publish(self) -> None:
        producer = Producer(self.secured.confluent("steady-kafka", error_cb=self.problems.append))

        def told(error: object, _message: object) -> None:
            self.counts["publish"] += error is None
            self.problems.extend([] if error is None else [error])

        while not self.stop.is_set():
            producer.produce("orders", b"x", callback=told)
            producer.poll(0.002)
        producer.flush(20)

    def _http(self) -> None:
        with connect_blocking(self.secured.http, api_key=self.key, ca=str(self.secured.ca)) as client:
            while not self.stop.is_set():
                client.topic("orders")
                self.counts["http"] += 1

    def _read(self) -> None:
        settings = self.secured.confluent("steady-reader", **{"group.id": "steady", "auto.offset.reset": "earliest"})
        consumer = Consumer(settings | {"error_cb": self.problems.append})
        consumer.subscribe(["orders"])
        while not self.stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                self.problems.append(message.error())
            self.counts["read"] += message is not None
        consumer.close()

    def _connect(self) -> None:
        who = {"user": "steady-http", "password": PASSWORD, "ca": str(self.secured.ca)}
        while not self.stop.is_set():
            with connect_blocking(self.secured.http, **who) as client:  # type: ignore[arg-type]
                client.topic("orders")
                self.counts["connect"] += 1

    def goes_on(self, before: dict[str, int]) -> bool:
        return bool(self.problems) or all(self.counts[name] > before[name] for name in before)

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        soon(lambda: self.goes_on(dict.fromkeys(self.counts, 0)), 30)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(40)


def rotate(secured: SecuredBroker, number: int) -> None:
    """New certificates; another principal's keys, password and user come and go."""
    secured.write_certificates(f"rotated-{number}")
    old = secured.done("POST", "/admin/security/keys", {"principal": "User:rotated"})
    secured.user("rotated", "consumer")
    new = secured.done("POST", "/admin/security/keys", {"principal": "User:rotated"})
    secured.done("DELETE", f"/admin/security/keys/{old['id']}")
    assert secured.call("GET", "/topics", credentials=f"Bearer {new['key']}")[0] == 200
    secured.done("PUT", "/admin/security/users/rotated", {"password": f"another password {number}"})
    secured.done("DELETE", f"/admin/security/keys/{new['id']}")
    secured.done("DELETE", "/admin/security/users/rotated")


def test_certificates_keys_and_users_are_rotated_under_load_without_an_error(secured: SecuredBroker) -> None:
    with Load(secured) as load:
        for number in range(5):
            rotate(secured, number)
            before = dict(load.counts)
            soon(lambda before=before: load.goes_on(before), 30)
    assert load.problems == []
    assert not any(thread.is_alive() for thread in load.threads)


def test_the_client_over_grpc_with_tls_does_what_it_does_over_http(secured: SecuredBroker) -> None:
    secured.user("gina", "producer:orders", "consumer")

    async def use(**credentials: str) -> list[str]:
        async with connect(f"grpcs://{secured.grpc}", ca=str(secured.ca), **credentials) as client:  # type: ignore[arg-type]
            async with client.producer() as producer:
                await producer.send_and_wait("orders", b"over grpcs")
            async with client.queue("orders", group="grpcs") as opened:
                messages = await opened.receive(limit=1, wait="10s")
                await opened.ack(messages[0])
            return [one.name for one in await client.topics()]

    assert asyncio.run(use(user="gina", password=PASSWORD)) == ["orders"]
    assert asyncio.run(use(api_key=secured.api_key)) != []
    with pytest.raises(Exception, match=r"(?i)credential|authenticat"):
        asyncio.run(use(user="gina", password="a wrong password"))


def test_a_denied_subject_is_denied_over_grpc_too(secured: SecuredBroker) -> None:
    from goqueue.protos import schemas_pb2, schemas_pb2_grpc

    schema = {"schema": '{"type": "string"}', "schemaType": "JSON"}
    for subject in ("plans-value", "prices-value"):
        secured.done("POST", f"/subjects/{subject}/versions", schema)
    prefixed, wide = secured.user("pia", "consumer:prices"), secured.user("wes", "consumer")
    secured.allow("wes", "describe", "topic", "plans", permission="deny")
    with channel(secured) as opened:
        registry = schemas_pb2_grpc.SchemaServiceStub(opened)

        def asked(shown: str, subject: str) -> grpc.StatusCode:
            request = schemas_pb2.GetVersionOfSubjectRequest(subject=subject, version="latest")
            try:
                registry.GetVersionOfSubject(request, metadata=(("authorization", shown),), timeout=10)
            except grpc.RpcError as error:
                return error.code()  # type: ignore[attr-defined, no-any-return]
            return grpc.StatusCode.OK

        assert asked(prefixed, "prices-value") is grpc.StatusCode.OK
        assert asked(prefixed, "plans-value") is grpc.StatusCode.PERMISSION_DENIED
        assert asked(wide, "prices-value") is grpc.StatusCode.OK
        assert asked(wide, "plans-value") is grpc.StatusCode.PERMISSION_DENIED
