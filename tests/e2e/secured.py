"""A broker with security, as an operator sets it up: certificates, an administrator, users with rights of their own."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.e2e.process import BrokerProcess

from goqueue.node.security.administrators import make_administrator
from goqueue.security import certificates

ISSUER, AUDIENCE = "https://issuer.test", "goqueue"
PASSWORD = "correct horse battery"


class SecuredBroker:
    """A broker with a plain listener on loopback and one with TLS for each protocol."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.ca = home / "ca.pem"
        self.authority = certificates.new_authority()
        self.write_certificates()
        self.issuer_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.keys_file = home / "jwks.json"
        self._write_keys()
        self.process = BrokerProcess(home, environment=self._environment() | settings)
        admin = make_administrator(str(self.process.data_dir), "admin", reset=False)
        self.password, self.api_key = admin.password, admin.api_key
        self.process.start()
        self.read_addresses()

    def read_addresses(self) -> None:
        listeners = json.loads(self.process.ready_file.read_text())["listeners"]
        self.kafka, self.http = listeners["secure"], f"https://{listeners['api']}"
        self.grpc = listeners["calls"]
        self.plain_kafka, self.plain_http = listeners["kafka"], f"http://{listeners['http']}"

    def write_certificates(self, name: str = "broker") -> None:
        made = certificates.new_certificate(self.authority, name, ["localhost", "127.0.0.1"])
        certificates.write(self.authority, self.ca, self.home / "ca.key")
        certificates.write(made, self.home / "server.pem", self.home / "server.key")

    def client_certificate(self, name: str, authority: certificates.Pair | None = None) -> Path:
        """A file with a certificate and its key."""
        made = certificates.new_certificate(authority or self.authority, name, is_client=True)
        certificate, key = self.home / f"{name}.pem", self.home / f"{name}.key"
        certificates.write(made, certificate, key)
        both = self.home / f"{name}-both.pem"
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        return both

    def token(self, name: str, *, kid: str = "one", key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        now = int(time.time())
        body = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "exp": now + 3600, **claims}
        return jwt.encode(body, key or self.issuer_key, algorithm=algorithm, headers={"kid": kid})

    def _write_keys(self) -> None:
        algorithm = jwt.algorithms.RSAAlgorithm
        row = json.loads(algorithm.to_jwk(self.issuer_key.public_key())) | {"kid": "one", "use": "sig", "alg": "RS256"}
        self.keys_file.write_text(json.dumps({"keys": [row]}))

    def listeners(self) -> dict[str, str]:
        """The settings of its listeners, for another broker with the same ones."""
        tls = "127.0.0.1:0?client_certificates=optional"
        return {
            "GOQUEUE_LISTENERS_NAMED": f"secure=kafka+tls://{tls},api=http+tls://{tls},calls=grpc+tls://{tls}",
            "GOQUEUE_TLS_CERTIFICATE": str(self.home / "server.pem"),
            "GOQUEUE_TLS_KEY": str(self.home / "server.key"),
            "GOQUEUE_TLS_CLIENT_CA": str(self.ca),
            "GOQUEUE_TLS_RELOAD_MS": "100",
        }

    def _environment(self) -> dict[str, str]:
        return {
            **self.listeners(),
            "GOQUEUE_SECURITY_ENABLED": "true",
            "GOQUEUE_SECURITY_TOKEN_KEYS": str(self.keys_file),
            "GOQUEUE_SECURITY_TOKEN_ISSUER": ISSUER,
            "GOQUEUE_SECURITY_TOKEN_AUDIENCE": AUDIENCE,
            "GOQUEUE_SECURITY_PRINCIPAL_MAPPING_RULES": r"RULE:^CN=([^,]+).*$/$1/L;DEFAULT",
            "GOQUEUE_SECURITY_FAILED_LOGIN_MS_MAX": "20",
            "GOQUEUE_SECURITY_AUDIT_FILE": str(self.home / "audit.jsonl"),
        }

    # --- HTTP ---------------------------------------------------------------------------

    def tls(self) -> SSLContext:
        return create_default_context(cafile=str(self.ca))

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        credentials: str | None = None,
        base: str | None = None,
        **headers: str,
    ) -> tuple[int, Any]:
        """Status and reply. `credentials` is an Authorization header; as the administrator unless it says otherwise."""
        data = None if body is None else json.dumps(body).encode()
        asked = {name.replace("_", "-"): value for name, value in headers.items()}
        shown = f"Bearer {self.api_key}" if credentials is None else credentials
        if shown:
            asked["Authorization"] = shown
        if data is not None:
            asked.setdefault("Content-Type", "application/json")
        request = urllib.request.Request((base or self.http) + path, data, asked, method=method)
        context = self.tls() if request.full_url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def done(self, method: str, path: str, body: object = None) -> Any:
        """As the administrator, and it worked."""
        status, reply = self.call(method, path, body)
        assert status < 300, reply
        return reply

    def user(self, name: str, *bindings: str) -> str:
        """A user with `role` or `role:prefix`; returns its header of basic authentication."""
        self.done("PUT", f"/admin/security/users/{name}", {"password": PASSWORD})
        for text in bindings:
            role, _, prefix = text.partition(":")
            body = {"principal": f"User:{name}", "role": role, "prefix": prefix}
            self.done("POST", "/admin/security/bindings", body)
        return basic(name, PASSWORD)

    def allow(self, name: str, operation: str, resource: str, what: str, **more: str) -> None:
        body = {"principal": f"User:{name}", "operation": operation, "resource": resource, "name": what, **more}
        self.done("POST", "/admin/security/acls", body)

    def disallow(self, name: str, operation: str, resource: str, what: str, **more: str) -> None:
        body = {"principal": f"User:{name}", "operation": operation, "resource": resource, "name": what, **more}
        self.done("DELETE", "/admin/security/acls", body)

    # --- Kafka --------------------------------------------------------------------------

    def confluent(self, name: str = "admin", mechanism: str = "SCRAM-SHA-256", **more: Any) -> dict[str, Any]:
        """Settings of a confluent-kafka client."""
        return {
            "bootstrap.servers": self.kafka,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": mechanism,
            "sasl.username": name,
            "sasl.password": self.password if name == "admin" else PASSWORD,
            "ssl.ca.location": str(self.ca),
            "log_level": 0,
            **more,
        }

    def wire(self, name: str = "admin", mechanism: str = "SCRAM-SHA-512", **more: str) -> dict[str, str]:
        """Security options of our own Kafka client."""
        password = self.password if name == "admin" else PASSWORD
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            **more,
        }

    def audit(self) -> list[dict[str, Any]]:
        """The audit log as the file has it."""
        file = self.home / "audit.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def stop(self) -> None:
        self.process.kill()


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def soon(check: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What `check` returns, once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found
