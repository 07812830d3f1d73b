"""Kafka's security options, as clients and Spark jobs write them, and what they mean for a connection.

Names are without the prefix `kafka.`. What cannot be honoured is refused by name: to connect without the protection
that was asked for would be worse than not to connect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from goqueue.client.wire.errors import SecurityUnsupported

# Names a file with options of security, for those who are given none.
KAFKA_CONFIG = "GOQUEUE_KAFKA_CONFIG"
_OF_SECURITY = ("security.", "sasl.", "ssl.")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SASL = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
_SSL = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.endpoint.identification.algorithm",
        # Taken and left to the library, which never goes below TLS 1.2.
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.truststore.alias",
    }
)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;]+)""")
_KEYTOOL = (
    "keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12, "
    "then set {name}.location=store.p12 and {name}.type=PKCS12"
)


class WireSecurity(NamedTuple):
    """How a connection is protected, and who makes it. Shown without its secrets."""

    uses_tls: bool
    mechanism: str = ""
    username: str = ""
    password: str = ""
    token: str = ""
    token_file: str = ""
    # Options whose names begin with "ssl.".
    tls: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"WireSecurity(uses_tls={self.uses_tls}, mechanism={self.mechanism!r}, username={self.username!r})"


def check_security(options: Mapping[str, str]) -> None:
    """Refuse options that cannot be honoured."""
    security_of(options)


def with_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """The options; if they say nothing of security, with those of the file that GOQUEUE_KAFKA_CONFIG names.

    The file is one of Kafka's tools: a line `name=value` for each option. Only options of security are taken from it.
    """
    path = os.environ.get(KAFKA_CONFIG)
    if not path or "security.protocol" in options:
        return dict(options)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityUnsupported(f"{KAFKA_CONFIG}={path} cannot be read: {error}") from None
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith(("#", "!")))
    found = {name.strip(): value.strip() for name, _, value in pairs}
    return {name: value for name, value in found.items() if name.startswith(_OF_SECURITY)} | dict(options)


def security_of(options: Mapping[str, str]) -> WireSecurity | None:
    """What the options ask for; None if it is plain text without a login."""
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SecurityUnsupported(f"security.protocol={protocol} is not one of {', '.join(PROTOCOLS)}")
    uses_tls, uses_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    for name in options:
        if name.startswith("sasl.") and (name not in _SASL or not uses_sasl):
            why = "is not supported" if uses_sasl else f"has no effect with security.protocol={protocol}"
            raise SecurityUnsupported(f"{name} {why}")
        if name.startswith("ssl.") and (name not in _SSL or not uses_tls):
            why = "is not supported" if uses_tls else f"has no effect with security.protocol={protocol}"
            raise SecurityUnsupported(f"{name} {why}")
    if not uses_tls and not uses_sasl:
        return None
    tls = {name: value for name, value in options.items() if name.startswith("ssl.")}
    for store in ("ssl.truststore", "ssl.keystore"):
        _check_store(tls, store)
    return _login(options, WireSecurity(uses_tls, tls=tls)) if uses_sasl else WireSecurity(uses_tls, tls=tls)


def _check_store(options: Mapping[str, str], name: str) -> None:
    path = options.get(f"{name}.location", "")
    kind = options.get(f"{name}.type", "PEM" if path.endswith(".pem") else "PKCS12" if _is_pkcs12(path) else "JKS")
    if path and kind.upper() not in {"PEM", "PKCS12"}:
        raise SecurityUnsupported(f"{name}.type={kind} is not supported: run {_KEYTOOL.format(path=path, name=name)}")


def _is_pkcs12(path: str) -> bool:
    return path.endswith((".p12", ".pfx"))


def _login(options: Mapping[str, str], made: WireSecurity) -> WireSecurity:
    # Kafka's own default is GSSAPI.
    mechanism = (options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise SecurityUnsupported(f"sasl.mechanism={mechanism} is not one of {', '.join(MECHANISMS)}")
    jaas = _jaas(options.get("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        url = options.get("sasl.oauthbearer.token.endpoint.url", "")
        token = options.get("sasl.oauthbearer.token", "")
        if not token and not url.startswith("file://"):
            raise SecurityUnsupported(
                "OAUTHBEARER needs sasl.oauthbearer.token, or a file:// URL in sasl.oauthbearer.token.endpoint.url"
            )
        return made._replace(mechanism=mechanism, token=token, token_file=url.removeprefix("file://"))
    username = options.get("sasl.username") or jaas.get("username", "")
    password = options.get("sasl.password") or jaas.get("password", "")
    if not username or not password:
        raise SecurityUnsupported(
            f"{mechanism} needs a user and a password: set sasl.jaas.config, or sasl.username and sasl.password"
        )
    return made._replace(mechanism=mechanism, username=username, password=password)


def _jaas(text: str) -> dict[str, str]:
    """The options of a line such as `...ScramLoginModule required username="a" password="b";`."""
    found = {}
    for name, value in _JAAS_OPTION.findall(text):
        if value[:1] in {'"', "'"}:
            found[name] = re.sub(r"\\(.)", r"\1", value[1:-1])
        else:
            found[name] = value
    return found
