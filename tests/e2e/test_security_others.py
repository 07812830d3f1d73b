"""Clients of others against a broker with TLS of a private authority: registry, workers, Celery, Dramatiq, Java."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.e2e.secured import PASSWORD, SecuredBroker, basic
from tests.e2e.test_java_client import JARS, PROGRAM, skip_without_java

SCHEMA = '{"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("others"))
    try:
        yield broker
    finally:
        broker.stop()


# --- Confluent's registry client ----------------------------------------------------------


@contextmanager
def registry(secured: SecuredBroker, more: dict[str, str]) -> Iterator[SchemaRegistryClient]:
    settings = {"url": secured.http, "ssl.ca.location": str(secured.ca), "max.retries": 0}
    client = SchemaRegistryClient(settings | more)
    try:
        yield client
    finally:
        client.__exit__(None, None, None)


@pytest.mark.parametrize("how", ["basic", "key", "token"])
def test_confluents_registry_client_logs_in(secured: SecuredBroker, how: str) -> None:
    name = f"{how}-author"
    secured.user(name, f"producer:{how}", f"consumer:{how}")
    if how == "basic":
        shown = {"basic.auth.user.info": f"{name}:{PASSWORD}"}
    else:
        made = secured.done("POST", "/admin/security/keys", {"principal": f"User:{name}"})
        shown = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": made["key"] if how == "key" else secured.token(name),
            "bearer.auth.logical.cluster": "any",
            "bearer.auth.identity.pool.id": "any",
        }
    at = SerializationContext(f"{how}-orders", MessageField.VALUE)
    with registry(secured, shown) as client:
        data = JSONSerializer(SCHEMA, client)({"id": 7}, at)
        assert JSONDeserializer(SCHEMA, schema_registry_client=client)(data, at) == {"id": 7}
        assert client.get_latest_version(f"{how}-orders-value").version == 1
        with pytest.raises(SchemaRegistryError) as told:
            client.register_schema("secret-value", Schema(SCHEMA, "JSON"))
    assert told.value.http_status_code == 403


@pytest.mark.parametrize("shown", [{}, {"basic.auth.user.info": "admin:not the password"}])
def test_confluents_registry_client_with_a_wrong_password_is_refused(
    secured: SecuredBroker, shown: dict[str, str]
) -> None:
    with registry(secured, shown) as client, pytest.raises(SchemaRegistryError) as told:
        client.get_subjects()
    assert told.value.http_status_code == 401


# --- workers ------------------------------------------------------------------------------


def test_a_worker_trusts_a_private_authority(secured: SecuredBroker) -> None:
    from goqueue.worker import Worker

    secured.user("wanda", "operator", "producer", "consumer")
    done = threading.Event()
    app = Worker(secured.http, name="shop", queue="errands", user="wanda", password=PASSWORD, ca=str(secured.ca))

    @app.task(name="fetch")
    def fetch(item: str) -> None:
        if item == "milk":
            done.set()

    thread = threading.Thread(target=lambda: app.run(concurrency=1, pool="threads"))
    thread.start()
    try:
        fetch.send("milk")
        assert done.wait(30)
    finally:
        app.stop()
        thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("how", ["key", "user"])
def test_dramatiq_trusts_a_private_authority(secured: SecuredBroker, how: str) -> None:
    dramatiq = pytest.importorskip("dramatiq")
    from goqueue.dramatiq import GoQueueBroker

    who = {"api_key": secured.api_key} if how == "key" else {"user": "admin", "password": secured.password}
    broker = GoQueueBroker(secured.http, partitions=1, ca=str(secured.ca), **who)
    broker.declare_queue(f"dramatiq-{how}")
    broker.enqueue(dramatiq.Message(f"dramatiq-{how}", "fetch", ("milk",), {}, {}))
    consumer = broker.consume(f"dramatiq-{how}", timeout=20_000)
    message = next(consumer)
    assert message is not None
    assert message.args == ("milk",)
    consumer.ack(message)
    consumer.close()
    broker.close()


@pytest.mark.parametrize("how", ["key", "user", "environment"])
def test_celerys_transport_trusts_a_private_authority(
    secured: SecuredBroker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kombu = pytest.importorskip("kombu")
    import goqueue.celery  # noqa: F401 - makes the transport known

    address = secured.http.removeprefix("https://")
    shown = {"key": f":{secured.api_key}@", "user": f"admin:{secured.password}@", "environment": ""}[how]
    files: object = {"ca_certs": str(secured.ca)}
    if how == "environment":
        monkeypatch.setenv("GOQUEUE_API_KEY", secured.api_key)
        monkeypatch.setenv("GOQUEUE_CA", str(secured.ca))
        files = True
    with kombu.Connection(f"goqueue://{shown}{address}", ssl=files) as connection:
        queue = connection.SimpleQueue(f"celery-{how}")
        queue.put({"item": "milk"})
        message = queue.get(timeout=20)
        assert message.payload == {"item": "milk"}
        message.ack()
        queue.close()


# --- Apache Kafka's own client and tools ---------------------------------------------------


def java_settings(secured: SecuredBroker, file: Path, mechanism: str) -> Path:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f'username="admin" password="{secured.password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_the_java_client_does_all_that_programs_do_every_day(tmp_path: Path, mechanism: str) -> None:
    skip_without_java()
    secured = SecuredBroker(tmp_path / "broker")
    try:
        settings = java_settings(secured, tmp_path / "client.properties", mechanism)
        command = ["java", "-cp", f"{JARS}/*", str(PROGRAM), secured.kafka, str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    finally:
        secured.stop()
    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    for name in ("classic group", "cooperative group", "group by the new protocol", "share group"):
        assert found[name] == "1000", found
    assert found["epochs of four transactions"] == "4"
    assert len(found["committed only"].split(", ")) == 20


@pytest.mark.slow
def test_kafka_acls_and_kafka_configs_manage_rules_and_users(secured: SecuredBroker, tmp_path: Path) -> None:
    skip_without_java()
    settings = java_settings(secured, tmp_path / "client.properties", "SCRAM-SHA-256")

    def run(tool: str, *arguments: str) -> str:
        command = ["java", "-cp", f"{JARS}/*", tool, "--bootstrap-server", secured.kafka]
        done = subprocess.run(
            [*command, "--command-config", str(settings), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    acls = "org.apache.kafka.tools.AclCommand"
    named = ("--topic", "ledger", "--resource-pattern-type", "prefixed")
    rule = ("--allow-principal", "User:java", "--operation", "Read", *named)
    assert "operation=READ" in run(acls, "--add", *rule)
    assert "principal=User:java" in run(acls, "--list", *named)
    rows = secured.done("GET", "/admin/security/acls")["acls"]
    assert [one["pattern"] for one in rows if one["principal"] == "User:java"] == ["prefixed"]
    run(acls, "--remove", "--force", *rule)
    assert not any(one["principal"] == "User:java" for one in secured.done("GET", "/admin/security/acls")["acls"])

    configs = "kafka.admin.ConfigCommand"
    who = ("--entity-type", "users", "--entity-name", "javauser")
    run(configs, "--alter", *who, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=a long password]")
    assert "SCRAM-SHA-512" in run(configs, "--describe", *who)
    assert secured.call("GET", "/admin/security/whoami", credentials=basic("javauser", "a long password"))[0] == 200
    run(configs, "--alter", *who, "--delete-config", "SCRAM-SHA-512")
    assert secured.call("GET", "/admin/security/whoami", credentials=basic("javauser", "a long password"))[0] == 401
