"""What users may do, who takes it away, and how soon that counts."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from tests.e2e.secured import PASSWORD, SecuredBroker, basic, soon

from goqueue.client.wire import AnswerLost, LoginFailed, WireClient
from goqueue.client.wire.offsets import LATEST, list_offsets
from goqueue.records import TopicPartition as GoQueuePartition
from goqueue.security import certificates


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.done("POST", "/topics", {"name": "orders", "num_partitions": 1})
    try:
        yield broker
    finally:
        broker.stop()


def produced(settings: dict[str, Any], topic: str) -> KafkaError | None:
    told: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 8_000})
    producer.produce(topic, b"x", callback=lambda error, _: told.append(error))
    producer.flush(10)
    return told[0]


# --- rules --------------------------------------------------------------------------------


def test_without_a_rule_a_user_may_nothing_and_sees_nothing(secured: SecuredBroker) -> None:
    nobody = secured.user("nobody")
    assert secured.call("GET", "/topics", credentials=nobody) == (200, {"topics": [], "count": 0}) or (
        secured.call("GET", "/topics", credentials=nobody)[1]["topics"] == []
    )
    error = produced(secured.confluent("nobody"), "orders")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_topics_that_are_there_and_topics_that_are_not_get_the_same_answer(secured: SecuredBroker) -> None:
    stranger = secured.user("stranger")
    answers = [
        [secured.call(method, path.format(name), body, credentials=stranger) for name in ("orders", "absent")]
        for method, path, body in (
            ("GET", "/topics/{}", None),
            ("GET", "/topics/{}/messages", None),
            ("POST", "/topics/{}/messages", {"value": "x"}),
            ("DELETE", "/topics/{}", None),
            ("POST", "/topics/{}/receive", {"group": "g"}),
            ("GET", "/topics/{}/delayed", None),
            ("GET", "/topics/{}/dlq", None),
        )
    ]
    for there, absent in answers:
        assert there[0] == absent[0] == 403
        assert json.dumps(there[1]).replace("orders", "absent") == json.dumps(absent[1])


def test_a_denial_wins_over_every_permission(secured: SecuredBroker) -> None:
    secured.user("carol", "producer")
    assert produced(secured.confluent("carol"), "orders") is None
    secured.allow("carol", "write", "topic", "ord", pattern="prefixed", permission="deny")
    error = produced(secured.confluent("carol"), "orders")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_rule_for_another_address_does_not_count(secured: SecuredBroker) -> None:
    secured.user("dora")
    secured.allow("dora", "write", "topic", "orders", host="192.0.2.1")
    assert produced(secured.confluent("dora"), "orders") is not None
    secured.allow("dora", "write", "topic", "orders", host="127.0.0.1")
    assert produced(secured.confluent("dora"), "orders") is None


def test_internal_topics_are_for_administrators(secured: SecuredBroker) -> None:
    reader = secured.user("reader", "consumer", "readonly")
    assert secured.call("GET", "/topics/__audit/messages", credentials=reader)[0] == 403
    assert secured.call("GET", "/topics/__audit/messages")[0] == 200


def test_roles_of_ones_own(secured: SecuredBroker) -> None:
    grants = [{"resource": "topic", "operations": ["describe", "delete"]}]
    secured.done("PUT", "/admin/security/roles/cleaner", {"grants": grants})
    cleaner = secured.user("cleaner", "cleaner:old.")
    secured.done("POST", "/topics", {"name": "old.one", "num_partitions": 1})
    assert secured.call("DELETE", "/topics/orders", credentials=cleaner)[0] == 403
    assert secured.call("DELETE", "/topics/old.one", credentials=cleaner)[0] < 300
    assert secured.call("DELETE", "/admin/security/roles/cleaner")[0] == 409


def test_only_administrators_change_security(secured: SecuredBroker) -> None:
    operator = secured.user("operator", "operator")
    for method, path, body in (
        ("GET", "/admin/security/users", None),
        ("PUT", "/admin/security/users/operator", {"password": PASSWORD}),
        ("POST", "/admin/security/bindings", {"principal": "User:operator", "role": "admin"}),
        ("POST", "/admin/security/keys", {"principal": "User:admin"}),
    ):
        status, _ = secured.call(method, path, body, credentials=operator)
        assert status == (200 if method == "GET" else 403)


# --- Kafka's tools ------------------------------------------------------------------------


def test_the_admin_client_of_kafka_manages_rules(secured: SecuredBroker) -> None:
    secured.user("eve")
    admin = AdminClient(secured.confluent())
    rule = AclBinding(
        ResourceType.TOPIC,
        "eve.",
        ResourcePatternType.PREFIXED,
        "User:eve",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([rule], request_timeout=10).values():
        future.result(10)
    mine = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:eve", None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(mine).result(10) == [rule]
    eve = AdminClient(secured.confluent("eve"))
    for future in eve.create_topics([NewTopic("eve.one", 1)]).values():
        future.result(10)
    with pytest.raises(KafkaException) as told:
        next(iter(eve.create_topics([NewTopic("other", 1)]).values())).result(10)
    assert told.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with WireClient(secured.kafka, security=secured.wire("eve")) as client:
        everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        assert client.any_broker().call(29, 3, everything).error_code == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    (removed,) = admin.delete_acls([mine]).values()
    assert removed.result(10) == [rule]
    assert admin.describe_acls(mine).result(10) == []


def test_the_admin_client_of_kafka_manages_users(secured: SecuredBroker) -> None:
    admin = AdminClient(secured.confluent())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("frank", info, PASSWORD.encode())]
    ).values():
        future.result(10)
    found = admin.describe_user_scram_credentials(["frank"])["frank"].result(10)
    assert [(one.mechanism, one.iterations) for one in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 4096)
    ]
    with WireClient(secured.kafka, security=secured.wire("frank", "SCRAM-SHA-256")) as client:
        assert client.topics() == {}
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("frank", ScramMechanism.SCRAM_SHA_256)]
    ).values():
        future.result(10)
    with (
        WireClient(secured.kafka, security=secured.wire("frank", "SCRAM-SHA-256")) as client,
        pytest.raises(LoginFailed),
    ):
        client.topics()


def test_authorized_operations_are_what_the_caller_may(secured: SecuredBroker) -> None:
    from confluent_kafka import TopicCollection

    secured.user("gina", "consumer")
    gina = AdminClient(secured.confluent("gina"))
    described = gina.describe_topics(TopicCollection(["orders"]), include_authorized_operations=True)["orders"].result(
        10
    )
    assert {one.name for one in described.authorized_operations} == {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}


# --- revocation ---------------------------------------------------------------------------


def test_a_rule_that_is_taken_away_counts_on_open_connections_within_a_second(secured: SecuredBroker) -> None:
    secured.user("hank")
    secured.allow("hank", "read", "topic", "orders")
    with WireClient(secured.kafka, security=secured.wire("hank")) as client:
        client.topic("orders")
        place = GoQueuePartition("orders", 0)
        end = list_offsets(client, {place: LATEST})[place]
        connection = client.any_broker()
        # A read that waits for a message, and would be given the next one.
        asked = {"partition": 0, "fetch_offset": end, "partition_max_bytes": 1000}
        topics = [{"topic": "orders", "partitions": [asked]}]
        connection.send(1, 11, {"max_wait": 30_000, "min_bytes": 1, "max_bytes": 10_000, "topics": topics})
        secured.disallow("hank", "read", "topic", "orders")
        started = time.monotonic()
        with pytest.raises(AnswerLost):
            connection.receive()
        assert time.monotonic() - started < 1.0
    error = produced(secured.confluent("hank"), "orders")
    assert error is not None


def test_a_deleted_user_is_disconnected_and_a_deleted_key_refused(secured: SecuredBroker) -> None:
    secured.user("ivan", "consumer")
    made = secured.done("POST", "/admin/security/keys", {"principal": "User:ivan"})
    key = f"Bearer {made['key']}"
    assert secured.call("GET", "/topics", credentials=key)[0] == 200
    assert secured.call("GET", "/topics", credentials=basic("ivan", PASSWORD))[0] == 200
    with WireClient(secured.kafka, security=secured.wire("ivan")) as client:
        connection = client.any_broker()
        connection.call(3, 10, {"topics": []})
        secured.done("DELETE", f"/admin/security/keys/{made['id']}")
        assert secured.call("GET", "/topics", credentials=key)[0] == 401
        secured.done("DELETE", "/admin/security/users/ivan")
        assert secured.call("GET", "/topics", credentials=basic("ivan", PASSWORD))[0] == 401

        def is_closed() -> bool:
            try:
                connection.call(3, 10, {"topics": []})
            except Exception:  # noqa: BLE001 - any failure means that the connection is gone
                return True
            return False

        soon(is_closed, 1.0)


def test_a_stream_over_http_ends_when_its_reader_loses_the_topic(secured: SecuredBroker) -> None:
    reader = secured.user("judy")
    secured.allow("judy", "read", "topic", "orders")
    request = urllib.request.Request(f"{secured.http}/topics/orders/messages/stream", headers={"Authorization": reader})
    with urllib.request.urlopen(request, timeout=20, context=secured.tls()) as answer:
        secured.disallow("judy", "read", "topic", "orders")
        started = time.monotonic()
        try:
            while answer.read(1):
                pass
        except (OSError, ValueError, http.client.IncompleteRead):
            pass
        assert time.monotonic() - started < 1.5


def test_keys_are_exchanged_with_overlap_and_expire(secured: SecuredBroker) -> None:
    old = secured.done("POST", "/admin/security/keys", {"principal": "User:kate"})
    new = secured.done("POST", "/admin/security/keys", {"principal": "User:kate"})
    assert [secured.call("GET", "/topics", credentials=f"Bearer {one['key']}")[0] for one in (old, new)] == [200, 200]
    secured.done("DELETE", f"/admin/security/keys/{old['id']}")
    assert secured.call("GET", "/topics", credentials=f"Bearer {new['key']}")[0] == 200
    short = secured.done("POST", "/admin/security/keys", {"principal": "User:kate", "ttl_seconds": 1})
    soon(lambda: secured.call("GET", "/topics", credentials=f"Bearer {short['key']}")[0] == 401, 5)
    listed = {one["id"]: one for one in secured.done("GET", "/admin/security/keys")["keys"]}
    assert listed[new["id"]]["last_used_ms"] > 0
    assert new["key"] not in json.dumps(listed)


# --- sessions -----------------------------------------------------------------------------


def test_a_session_ends_with_its_token_unless_the_client_logs_in_again(secured: SecuredBroker) -> None:
    secured.user("liam", "consumer")
    file = secured.home / "liam.token"
    file.write_text(secured.token("liam", exp=int(time.time()) - 8))
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"file://{file}",
        "ssl.ca.location": str(secured.ca),
    }
    # Expired by now, and good for two seconds more because clocks differ.
    with WireClient(secured.kafka, security=security) as client:
        first = client.any_broker()
        first.call(3, 10, {"topics": []})
        file.write_text(secured.token("liam"))
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            first.call(3, 10, {"topics": []})
            time.sleep(0.05)


# --- TLS ----------------------------------------------------------------------------------


def _peer(secured: SecuredBroker, context: ssl.SSLContext) -> str:
    import socket

    host, _, port = secured.kafka.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        subject = wrapped.getpeercert()["subject"]  # type: ignore[index]
        return str(dict(part[0] for part in subject)["commonName"])  # type: ignore[index, misc]


def test_changed_certificates_are_used_without_a_restart(secured: SecuredBroker) -> None:
    with WireClient(secured.kafka, security=secured.wire()) as client:
        held = client.any_broker()
        secured.write_certificates("renewed")
        soon(lambda: _peer(secured, secured.tls()) == "renewed")
        held.call(3, 10, {"topics": []})
    secured.write_certificates("broker")
    soon(lambda: _peer(secured, secured.tls()) == "broker")


def test_an_authority_that_was_removed_is_no_longer_trusted(secured: SecuredBroker) -> None:
    other = certificates.new_authority("Other CA")
    file = str(secured.client_certificate("mia", other))
    context = secured.tls()
    context.load_cert_chain(file)

    def whoami() -> int:
        try:
            with urllib.request.urlopen(f"{secured.http}/admin/security/whoami", timeout=10, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    own = secured.ca.read_bytes()
    from cryptography.hazmat.primitives.serialization import Encoding

    assert whoami() == 0
    secured.ca.write_bytes(own + other.certificate.public_bytes(Encoding.PEM))
    soon(lambda: whoami() == 200)
    secured.ca.write_bytes(own)
    soon(lambda: whoami() == 0)


def test_the_days_until_the_certificate_expires_are_a_metric(secured: SecuredBroker) -> None:
    request = urllib.request.Request(f"{secured.http}/metrics", headers={"Authorization": f"Bearer {secured.api_key}"})
    with urllib.request.urlopen(request, timeout=20, context=secured.tls()) as answer:
        (line,) = [one for one in answer.read().decode().splitlines() if one.startswith("goqueue_tls_certificate_days")]
    assert 390 < float(line.split()[1]) < 400


def test_failed_logins_and_the_audit_log_are_counted(secured: SecuredBroker) -> None:
    assert secured.call("GET", "/topics", credentials="Bearer gq_no_key")[0] == 401
    request = urllib.request.Request(f"{secured.http}/metrics", headers={"Authorization": f"Bearer {secured.api_key}"})
    with urllib.request.urlopen(request, timeout=20, context=secured.tls()) as answer:
        rows = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    assert float(rows["goqueue_security_failed_logins_total"]) >= 1
    assert float(rows["goqueue_security_audit_events_total"]) >= 1
    assert rows["goqueue_security_audit_events_dropped_total"] == "0.0"


def test_old_versions_of_tls_are_refused(secured: SecuredBroker) -> None:
    context = secured.tls()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        _peer(secured, context)


# --- audit --------------------------------------------------------------------------------


def test_the_audit_log_has_logins_denials_and_changes_and_no_forged_address(secured: SecuredBroker) -> None:
    nina = secured.user("nina")
    forged = "203.0.113.77"
    secured.call("GET", "/topics", credentials=basic("nina", "wrong password"), X_Forwarded_For=forged)
    secured.call("DELETE", "/topics/orders", credentials=nina, X_Forwarded_For=forged, X_Request_Id="try-7")

    def events() -> list[dict[str, Any]]:
        return [one for one in secured.audit() if "nina" in one["principal"] or one.get("name") == "nina"]

    found = soon(lambda: [one for one in events() if one.get("request_id") == "try-7"])
    assert found[0] | {"time": ""} == {
        "time": "",
        "event": "change",
        "principal": "User:nina",
        "decision": "denied",
        "address": "127.0.0.1",
        "protocol": "http",
        "client_id": found[0]["client_id"],
        "request_id": "try-7",
        "operation": "delete",
        "resource": "topic",
        "name": "orders",
    }
    kinds = {(one["event"], one["decision"]) for one in events()}
    assert {("login", "denied"), ("login", "allowed"), ("change", "allowed")} <= kinds
    text = (secured.home / "audit.jsonl").read_text()
    assert forged not in text
    assert "wrong password" not in text
    assert PASSWORD not in text


def test_the_audit_log_survives_the_end_of_the_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    broker = SecuredBroker(tmp_path_factory.mktemp("killed"))
    try:
        broker.user("olga", "admin")
        broker.process.kill()
        broker.process.start()
        broker.read_addresses()
        reply = broker.done("GET", "/topics/__audit/messages?limit=1000")
        assert "put_user" in json.dumps(reply)
        assert "olga" in json.dumps(reply)
        # Users and their rights survive as well.
        assert broker.call("GET", "/stats", credentials=basic("olga", PASSWORD))[0] == 200
    finally:
        broker.stop()


def test_secrets_are_in_no_log_and_no_file_of_the_broker(secured: SecuredBroker) -> None:
    secured.user("paul")
    made = secured.done("POST", "/admin/security/keys", {"principal": "User:paul"})
    secured.call("GET", "/topics", credentials=f"Bearer {made['key']}x")
    found = [
        path
        for path in (*secured.process.data_dir.rglob("*"), secured.process.log_file, secured.home / "audit.jsonl")
        if path.is_file()
        and any(one.encode() in path.read_bytes() for one in (made["key"], PASSWORD, secured.password, secured.api_key))
    ]
    assert found == []


def test_files_are_readable_by_their_owner_alone(secured: SecuredBroker) -> None:
    loose = [
        str(path)
        for path in (secured.process.data_dir, *secured.process.data_dir.rglob("*"), secured.home / "audit.jsonl")
        if path.stat().st_mode & 0o077
    ]
    assert loose == []
