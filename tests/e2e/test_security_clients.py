"""Stock clients of every kind against a broker that asks who they are."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from tests.e2e.secured import PASSWORD, SecuredBroker, basic

from goqueue.client import RetryPolicy, connect
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.wire import LoginFailed, WireClient

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def alice(secured: SecuredBroker) -> str:
    secured.done("POST", "/topics", {"name": "a.first", "num_partitions": 1})
    return secured.user("alice", "producer:a.", "consumer:a.")


def by_confluent(settings: dict[str, Any], topic: str, text: str) -> list[bytes]:
    producer = Producer({**settings, "message.timeout.ms": 10_000})
    failures: list[Any] = []
    producer.produce(topic, text.encode(), callback=lambda error, _: failures.append(error))
    producer.flush(15)
    if failures and failures[0] is not None:
        raise KafkaException(failures[0])
    consumer = Consumer({**settings, "group.id": "a.confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while text.encode() not in found:
            message = consumer.poll(15)
            assert message is not None, "nothing came"
            if message.error():
                raise KafkaException(message.error())
            found.append(message.value())
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(secured: SecuredBroker, alice: str, mechanism: str) -> None:
    assert by_confluent(secured.confluent("alice", mechanism), "a.first", f"confluent {mechanism}")


def test_confluent_kafka_with_a_token(secured: SecuredBroker, alice: str) -> None:
    settings = secured.confluent("alice", "OAUTHBEARER")
    del settings["sasl.username"], settings["sasl.password"]
    settings["oauth_cb"] = lambda _: (secured.token("alice"), 4e9)
    assert by_confluent(settings, "a.first", "by token")


def test_confluent_kafka_with_a_certificate(secured: SecuredBroker, alice: str) -> None:
    file = str(secured.client_certificate("Alice"))
    settings = {
        "bootstrap.servers": secured.kafka,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.ca),
        "ssl.certificate.location": file,
        "ssl.key.location": file,
        "log_level": 0,
    }
    assert by_confluent(settings, "a.first", "by certificate")


_KAFKA_PYTHON = """
import sys
from kafka import KafkaConsumer, KafkaProducer
settings = dict(
    bootstrap_servers=sys.argv[1], ssl_cafile=sys.argv[2], security_protocol="SASL_SSL", sasl_mechanism=sys.argv[3],
    sasl_plain_username="alice", sasl_plain_password=sys.argv[4],
)
producer = KafkaProducer(**settings)
sent = producer.send("a.first", b"python").get(20)
producer.close()
consumer = KafkaConsumer(
    "a.first", group_id="a.python", auto_offset_reset="earliest", consumer_timeout_ms=15_000, **settings
)
assert any(message.offset == sent.offset for message in consumer)
consumer.close()
print("written and read:", sent.offset)
"""


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(secured: SecuredBroker, alice: str, mechanism: str) -> None:
    # In a process of its own: a client closed in the middle of a handshake leaves a socket open, and a later test pays.
    command = [sys.executable, "-W", "ignore", "-c", _KAFKA_PYTHON, secured.kafka, str(secured.ca), mechanism, PASSWORD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.startswith("written and read:"), done.stdout + done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(secured: SecuredBroker, alice: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": secured.kafka,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
        "ssl_context": secured.tls(),
    }

    async def run() -> None:
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        sent = await producer.send_and_wait("a.first", b"aiokafka")
        await producer.stop()
        consumer = AIOKafkaConsumer("a.first", group_id="a.aio", auto_offset_reset="earliest", **settings)
        await consumer.start()
        try:
            async with asyncio.timeout(20):
                async for message in consumer:
                    if message.offset == sent.offset:
                        return
        finally:
            await consumer.stop()

    asyncio.run(run())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat(secured: SecuredBroker, alice: str, mechanism: str) -> None:
    settings = secured.confluent("alice", mechanism)
    options = [f"-X{name}={value}" for name, value in settings.items() if name != "log_level"]
    text = f"kcat {mechanism}"
    subprocess.run(["kcat", "-P", "-t", "a.first", *options], input=text.encode(), check=True, timeout=30)
    read = subprocess.run(
        ["kcat", "-C", "-t", "a.first", "-e", "-q", *options], capture_output=True, check=True, timeout=30
    )
    assert text.encode() in read.stdout.splitlines()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_kafka_client(secured: SecuredBroker, alice: str, mechanism: str) -> None:
    with WireClient(secured.kafka, security=secured.wire("alice", mechanism)) as client:
        assert list(client.topics()) == ["a.first"]


def test_our_own_kafka_client_with_a_token_from_a_file(secured: SecuredBroker, alice: str) -> None:
    file = secured.home / "token"
    file.write_text(secured.token("alice"))
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"file://{file}",
        "ssl.ca.location": str(secured.ca),
    }
    with WireClient(secured.kafka, security=security) as client:
        assert list(client.topics()) == ["a.first"]


def test_our_own_kafka_client_trusts_no_other_authority(secured: SecuredBroker) -> None:
    other = secured.home / "other.pem"
    from goqueue.security import certificates

    certificates.write(certificates.new_authority(), other, secured.home / "other.key")
    security = secured.wire("alice") | {"ssl.truststore.location": str(other)}
    with WireClient(secured.kafka, security=security) as client, pytest.raises(LoginFailed, match="is not trusted"):
        client.topics()


# --- wrong credentials ---------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("alice", "wrong password"), ("nobody", PASSWORD), ("admin", PASSWORD)])
def test_wrong_credentials_are_refused_and_do_not_say_why(
    secured: SecuredBroker, alice: str, mechanism: str, name: str, password: str
) -> None:
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "ssl.ca.location": str(secured.ca),
    }
    with WireClient(secured.kafka, security=security) as client, pytest.raises(LoginFailed) as told:
        client.topics()
    assert "authentication failed" in str(told.value)
    assert name not in str(told.value)


def test_confluent_kafka_is_told_that_authentication_failed(secured: SecuredBroker, alice: str) -> None:
    told: list[Any] = []
    settings = secured.confluent("alice") | {"sasl.password": "wrong password", "error_cb": told.append}
    producer = Producer(settings)
    producer.produce("a.first", b"x")
    for _ in range(100):
        producer.poll(0.1)
        if told:
            break
    producer.purge()
    assert any(error.code() == KafkaError._AUTHENTICATION for error in told)


_PYTHON_REFUSED = """
import sys
from kafka import KafkaProducer
from kafka.errors import KafkaError
try:
    KafkaProducer(
        bootstrap_servers=sys.argv[1], ssl_cafile=sys.argv[2], security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256", sasl_plain_username="alice", sasl_plain_password="wrong password",
        bootstrap_timeout_ms=2000,
    )
except KafkaError as error:
    print("refused:", type(error).__name__)
"""

_AIOKAFKA_REFUSED = """
import asyncio, ssl, sys
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
async def run():
    producer = AIOKafkaProducer(
        bootstrap_servers=sys.argv[1], ssl_context=ssl.create_default_context(cafile=sys.argv[2]),
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_plain_username="alice",
        sasl_plain_password="wrong password",
    )
    try:
        await producer.start()
    finally:
        await producer.stop()
try:
    asyncio.run(run())
except KafkaError as error:
    print("refused:", type(error).__name__)
"""


@pytest.mark.parametrize("program", [_PYTHON_REFUSED, _AIOKAFKA_REFUSED], ids=["kafka-python", "aiokafka"])
def test_other_clients_with_a_wrong_password_are_refused_too(secured: SecuredBroker, alice: str, program: str) -> None:
    # In a process of its own: a producer that could not be made leaves sockets open, which a later test would pay for.
    command = [sys.executable, "-W", "ignore", "-c", program, secured.kafka, str(secured.ca)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.startswith("refused:"), done.stdout + done.stderr


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"nbf": 4_000_000_000},
        {"iss": "https://other.test"},
        {"aud": "another"},
        {"sub": ""},
    ],
)
def test_a_token_that_is_expired_too_young_or_of_others_is_refused(
    secured: SecuredBroker, claims: dict[str, Any]
) -> None:
    status, _ = secured.call("GET", "/topics", credentials=f"Bearer {secured.token('alice', **claims)}")
    assert status == 401


def test_tokens_that_no_private_key_has_signed_are_refused(secured: SecuredBroker) -> None:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    unsigned = jwt.encode({"sub": "alice", "exp": 4e9, "iss": "x", "aud": "y"}, None, algorithm="none")
    public = secured.keys_file.read_bytes()
    # The published key, taken as a shared secret: a verifier that lets the token choose would accept it.
    shared = secured.token("alice", key=public[:64], algorithm="HS256")
    stranger = secured.token("alice", key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    unknown = secured.token("alice", kid="two")
    for token in (unsigned, shared, stranger, unknown, "a.b.c", "x" * 6_000):
        assert secured.call("GET", "/topics", credentials=f"Bearer {token}")[0] == 401


# --- HTTP ---------------------------------------------------------------------------------


def test_http_takes_keys_passwords_tokens_and_certificates_of_one_principal(secured: SecuredBroker, alice: str) -> None:
    made = secured.done("POST", "/admin/security/keys", {"principal": "User:alice", "label": "test"})
    shown = [f"Bearer {made['key']}", alice, f"Bearer {secured.token('alice')}"]
    for credentials in shown:
        status, reply = secured.call("GET", "/admin/security/whoami", credentials=credentials)
        assert (status, reply["principal"]) == (200, "User:alice")
    status, reply = secured.call("GET", "/admin/security/whoami", credentials="", X_API_Key=made["key"])
    assert (status, reply["principal"]) == (200, "User:alice")
    file = str(secured.client_certificate("ALICE"))

    async def by_certificate() -> dict[str, Any]:
        async with connect(secured.http, ca=str(secured.ca), certificate=file) as client:
            return await client.get("/admin/security/whoami")

    assert asyncio.run(by_certificate())["principal"] == "User:alice"


def test_the_python_client_leaves_no_socket_open_when_it_is_closed(secured: SecuredBroker, alice: str) -> None:
    async def run() -> None:
        async with connect(secured.http, ca=str(secured.ca), user="admin", password=secured.password) as client:
            await client.queue("a.first", group="a.closing").receive(limit=1, wait=0.01)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(20):
            asyncio.run(run())
        gc.collect()
    assert not [str(one.message) for one in told if "unclosed" in str(one.message)]


def test_the_python_client_authenticates_by_key_or_password(secured: SecuredBroker, alice: str) -> None:
    async def run() -> None:
        async with connect(secured.http, ca=str(secured.ca), user="alice", password=PASSWORD) as client:
            assert [one.name for one in await client.topics()] == ["a.first"]
        async with connect(secured.http, ca=str(secured.ca), api_key="gq_nothing_atall") as client:
            with pytest.raises(RequestRefused, match="authentication failed"):
                await client.topics()
        async with connect(secured.http, user="alice", password=PASSWORD, retry=RetryPolicy(attempts_max=1)) as client:
            with pytest.raises(BrokerUnreachable) as refused:
                await client.topics()
            assert "GOQUEUE_CA" in refused.value.hint, "the authority is not known to this program"

    asyncio.run(run())


def test_a_key_in_the_query_string_is_not_read(secured: SecuredBroker) -> None:
    status, _ = secured.call("GET", f"/stats?api_key={secured.api_key}", credentials="")
    assert status == 401


def test_a_key_with_the_id_of_another_is_refused(secured: SecuredBroker) -> None:
    one, two = (secured.done("POST", "/admin/security/keys", {"principal": "User:alice"}) for _ in range(2))
    mixed = f"gq_{one['id']}_{two['key'].split('_', 2)[2]}"
    assert secured.call("GET", "/topics", credentials=f"Bearer {mixed}")[0] == 401


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/health"])
def test_health_is_answered_without_credentials_and_without_detail(secured: SecuredBroker, path: str) -> None:
    assert secured.call("GET", path, credentials="") == (200, {"status": "ok", "checks": []})
    assert secured.call("GET", path, credentials=basic("alice", "wrong password"))[0] == 401
