"""Clients that mean no good: before a login, during it, and instead of it."""

from __future__ import annotations

import os
import random
import socket
import ssl
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.secured import PASSWORD, SecuredBroker, soon

from goqueue.client.wire import WireClient
from goqueue.codec.kafka.encode import request_encoder
from goqueue.protos import topics_pb2, topics_pb2_grpc
from goqueue.servers.grpc.server import WATCHES_MAX, service_descriptors


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(
        tmp_path_factory.mktemp("hostile"),
        GOQUEUE_SECURITY_AUTHENTICATION_MS="1000",
        GOQUEUE_LIMITS_CONNECTIONS_PER_ADDRESS_MAX="150",
    )
    broker.done("POST", "/topics", {"name": "orders", "num_partitions": 1})
    try:
        yield broker
    finally:
        broker.stop()


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def is_closed(connection: socket.socket) -> bool:
    try:
        while True:
            if not connection.recv(65536):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


def serves(secured: SecuredBroker) -> bool:
    with WireClient(secured.kafka, security=secured.wire()) as client:
        return "orders" in client.topics()


# --- before a login -----------------------------------------------------------------------


@pytest.mark.parametrize("key", [0, 1, 3, 11, 19, 20, 29, 10100, -1])
def test_what_is_no_login_closes_the_connection(secured: SecuredBroker, key: int) -> None:
    with connected(secured.plain_kafka) as connection:
        connection.sendall(struct.pack(">ihhih", 10, key, 0, 1, -1))
        assert is_closed(connection)


def test_a_large_request_before_a_login_is_not_read(secured: SecuredBroker) -> None:
    with connected(secured.plain_kafka) as connection:
        connection.sendall(struct.pack(">i", 50_000_000) + b"x" * 100)
        assert is_closed(connection)


def test_many_requests_before_a_login_are_too_many(secured: SecuredBroker) -> None:
    request = b"".join(request_encoder(18, 0)(1, "x", {}))
    with connected(secured.plain_kafka) as connection:
        connection.sendall(request * 40)
        assert is_closed(connection)


def test_whoever_says_nothing_is_closed_in_time(secured: SecuredBroker) -> None:
    with connected(secured.plain_kafka) as connection:
        assert is_closed(connection)


def test_one_address_cannot_take_all_connections(secured: SecuredBroker) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        answers = []
        for _ in range(160):
            connection = stack.enter_context(connected(secured.plain_http.removeprefix("http://")))
            connection.sendall(request)
            answers.append(connection.recv(12))
    assert answers.count(b"HTTP/1.1 200") in range(140, 151)
    assert answers[-1] == b"HTTP/1.1 503"
    soon(lambda: serves(secured))


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "SCRAM-SHA-1", "OAUTHBEARER\0"])
def test_mechanisms_that_are_not_offered(secured: SecuredBroker, mechanism: str) -> None:
    with connected(secured.plain_kafka) as connection:
        connection.sendall(b"".join(request_encoder(17, 1)(1, "x", {"mechanism": mechanism})))
        size = struct.unpack(">i", connection.recv(4))[0]
        answer = connection.recv(size)
        assert struct.unpack(">h", answer[4:6])[0] == 33
        connection.sendall(b"".join(request_encoder(36, 2)(2, "x", {"auth_bytes": b"\0admin\0x"})))
        size = struct.unpack(">i", connection.recv(4))[0]
        assert connection.recv(size)


def test_a_login_that_is_cut_off_leaves_nothing_behind(secured: SecuredBroker) -> None:
    broker = psutil.Process(secured.process.pid)
    before = broker.num_fds()
    for _ in range(50):
        with connected(secured.plain_kafka) as connection:
            connection.sendall(b"".join(request_encoder(17, 1)(1, "x", {"mechanism": "SCRAM-SHA-256"}))[:-3])
        with connected(secured.kafka) as connection:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(40))
    soon(lambda: broker.num_fds() <= before + 5, 15)
    assert serves(secured)


def mutated(rng: random.Random) -> bytes:
    """A request of a login, with some of its bytes changed, cut or repeated."""
    key, version, fields = rng.choice(
        [
            (18, 3, {"client_software_name": "x", "client_software_version": "1"}),
            (17, 1, {"mechanism": "SCRAM-SHA-512"}),
            (36, 2, {"auth_bytes": b"n,,n=admin,r=abc"}),
            (36, 0, {"auth_bytes": b"\0admin\0wrong password"}),
        ]
    )
    data = bytearray(b"".join(request_encoder(key, version)(rng.randrange(2**31), "x", fields)))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)) :]
    return bytes(data)


_HTTP = (
    b"GET /topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer gq_abcdef_secret\r\n\r\n",
    b"GET /topics/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YWRtaW46d3Jvbmc=\r\n\r\n",
    b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer eyJhbGciOiJub25lIn0.e30.\r\n\r\n",
    b'POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\nX-API-Key: gq_x\r\n\r\n{"name":"xx"}',
    b"GET /queue/connection HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
)
# The beginning of a TLS client's first message.
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(32)) + b"\x20" + bytes(range(36))


def changed(rng: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def salvo(secured: SecuredBroker, rng: random.Random) -> tuple[str, list[bytes]]:
    """Where to send some mutated requests, and these: mostly Kafka's, some of HTTP, some bytes for a port with TLS."""
    chance = rng.random()
    if chance < 0.15:
        requests = [changed(rng, rng.choice(_HTTP)) for _ in range(rng.randrange(1, 10))]
        return secured.plain_http.removeprefix("http://"), requests
    if chance < 0.2:
        return rng.choice((secured.kafka, secured.grpc)), [changed(rng, _HELLO)]
    return secured.plain_kafka, [mutated(rng) for _ in range(rng.randrange(1, 30))]


def attack(secured: SecuredBroker, count: int) -> None:
    rng = random.Random(1)
    process = psutil.Process(secured.process.pid)
    before = process.memory_info().rss
    sent = 0
    while sent < count:
        address, batch = salvo(secured, rng)
        sent += len(batch)
        try:
            with connected(address) as connection:
                connection.settimeout(0.01)
                connection.sendall(b"".join(batch))
                is_closed(connection)
        except OSError:
            continue
    assert secured.process.running
    assert process.memory_info().rss - before < 64 * 1024 * 1024
    assert serves(secured)
    # Whatever came, it was refused: nothing of it was a mistake of the broker's.
    assert "Traceback" not in secured.process.output


def test_mutated_requests_before_a_login_do_no_harm(secured: SecuredBroker) -> None:
    attack(secured, 2_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_mutated_requests_before_a_login_do_no_harm(secured: SecuredBroker) -> None:
    attack(secured, int(os.environ.get("GOQUEUE_TEST_ATTACKS", "1000000")))


def test_plain_text_on_a_port_with_tls_and_tls_on_a_plain_port(secured: SecuredBroker) -> None:
    with connected(secured.kafka) as connection:
        connection.sendall(b"".join(request_encoder(18, 0)(1, "x", {})))
        assert is_closed(connection)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connected(secured.plain_kafka) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain)


# --- browsers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "multipart/form-data; boundary=x"}, 415),
        ({"Host": "rebound.test:8080"}, 403),
    ],
)
def test_pages_of_elsewhere_write_nothing(secured: SecuredBroker, headers: dict[str, str], status: int) -> None:
    assert secured.call("POST", "/topics/orders/messages", {"value": "x"}, **headers)[0] == status


def test_a_name_that_is_not_the_brokers_is_refused_for_reads_too(secured: SecuredBroker) -> None:
    assert secured.call("GET", "/topics", Host="rebound.test")[0] == 403
    assert secured.call("GET", "/topics", Host="localhost:1")[0] == 200


@pytest.mark.parametrize(
    "name", ["..", ".", "%2e%2e%2fetc", "..%2f..%2fmetadata", "a%00b", "%2fetc%2fpasswd", "a/../../b", "x" * 300]
)
def test_names_never_leave_the_data_directory(secured: SecuredBroker, name: str) -> None:
    request = urllib.request.Request(
        f"{secured.plain_http}/topics/{name}/messages",
        b'{"value": "x"}',
        {"Authorization": f"Bearer {secured.api_key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    assert status in {400, 404, 405}
    outside = {path.name for path in secured.process.data_dir.parent.iterdir()}
    assert "etc" not in outside
    assert "b" not in outside


# --- gRPC ---------------------------------------------------------------------------------


def channel(secured: SecuredBroker) -> grpc.Channel:
    return grpc.secure_channel(secured.grpc, grpc.ssl_channel_credentials(secured.ca.read_bytes()))


def test_every_grpc_method_asks_who_it_is(secured: SecuredBroker) -> None:
    with channel(secured) as open_channel:
        for service in service_descriptors():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                if method.client_streaming:
                    call = open_channel.stream_stream(path)(iter([b""]), timeout=10)
                elif method.server_streaming:
                    call = open_channel.unary_stream(path)(b"", timeout=10)
                else:
                    call = None
                with pytest.raises(grpc.RpcError) as told:
                    open_channel.unary_unary(path)(b"", timeout=10) if call is None else next(call)
                assert told.value.code() is grpc.StatusCode.UNAUTHENTICATED, path


def test_watching_the_health_without_credentials_is_bounded(secured: SecuredBroker) -> None:
    request = health_pb2.HealthCheckRequest()
    with channel(secured) as open_channel:
        stub = health_pb2_grpc.HealthStub(open_channel)
        watches = [stub.Watch(request, timeout=30) for _ in range(WATCHES_MAX)]
        assert {next(one).status for one in watches} == {health_pb2.HealthCheckResponse.SERVING}
        with pytest.raises(grpc.RpcError) as told:
            next(stub.Watch(request, timeout=30))
        assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stub.Check(request, timeout=10).status == health_pb2.HealthCheckResponse.SERVING
        for one in watches:
            one.cancel()

        def may_watch() -> bool:
            try:
                return bool(next(stub.Watch(request, timeout=5)).status == health_pb2.HealthCheckResponse.SERVING)
            except grpc.RpcError:
                return False

        soon(may_watch)


def test_grpc_takes_keys_and_passwords_and_checks_rights(secured: SecuredBroker) -> None:
    rita = secured.user("rita", "consumer")
    with channel(secured) as open_channel:
        topics = topics_pb2_grpc.TopicServiceStub(open_channel)
        listed = topics.ListTopics(topics_pb2.ListTopicsRequest(), metadata=(("authorization", rita),))
        assert "orders" in str(listed)
        with pytest.raises(grpc.RpcError) as told:
            topics.DeleteTopic(topics_pb2.DeleteTopicRequest(topic="orders"), metadata=(("authorization", rita),))
        assert told.value.code() is grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(grpc.RpcError) as told:
            topics.ListTopics(topics_pb2.ListTopicsRequest(), metadata=(("authorization", "Bearer gq_x_y"),))
        assert told.value.code() is grpc.StatusCode.UNAUTHENTICATED
        key = (("x-api-key", secured.api_key),)
        assert "orders" in str(topics.ListTopics(topics_pb2.ListTopicsRequest(), metadata=key))
    assert PASSWORD not in secured.process.output
