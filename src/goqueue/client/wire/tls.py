"""A TLS context out of Kafka's `ssl.*` options: PEM files, PEM text, and PKCS12 stores."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from goqueue.client.wire.errors import SecurityUnsupported

_VERIFY = "ssl.endpoint.identification.algorithm"


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """The context of a client. Without an authority of one's own, those of the system count."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # As in Kafka: an empty algorithm leaves out the name, the certificate itself is checked all the same.
        if options.get(_VERIFY, "https") == "":
            context.check_hostname = False
        authorities = _authorities(options)
        if authorities:
            context.load_verify_locations(cadata=authorities)
        else:
            context.load_default_certs()
        _load_own(context, options)
    except (OSError, ValueError) as error:
        raise SecurityUnsupported(f"the ssl options cannot be used: {error}") from error
    return context


def _authorities(options: Mapping[str, str]) -> str:
    if "ssl.truststore.certificates" in options:
        return options["ssl.truststore.certificates"]
    if "ssl.ca.location" in options:
        return Path(options["ssl.ca.location"]).read_text(encoding="utf-8")
    path = options.get("ssl.truststore.location")
    if not path:
        return ""
    if _kind(options, "ssl.truststore", path) == "PEM":
        return Path(path).read_text(encoding="utf-8")
    return _pkcs12(path, options.get("ssl.truststore.password", ""))[1]


def _load_own(context: ssl.SSLContext, options: Mapping[str, str]) -> None:
    """One's own certificate and key, if there are any."""
    password = options.get("ssl.key.password")
    if "ssl.certificate.location" in options:
        context.load_cert_chain(options["ssl.certificate.location"], options.get("ssl.key.location"), password)
    elif "ssl.keystore.certificate.chain" in options:
        _load_text(
            context, options["ssl.keystore.certificate.chain"] + "\n" + options.get("ssl.keystore.key", ""), password
        )
    elif "ssl.keystore.location" in options:
        path = options["ssl.keystore.location"]
        if _kind(options, "ssl.keystore", path) == "PEM":
            context.load_cert_chain(path, password=password)
        else:
            _load_text(context, _pkcs12(path, options.get("ssl.keystore.password", ""))[0], None)


def _kind(options: Mapping[str, str], name: str, path: str) -> str:
    return options.get(f"{name}.type", "PEM" if path.endswith(".pem") else "PKCS12").upper()


def _load_text(context: ssl.SSLContext, text: str, password: str | None) -> None:
    """The library reads keys from files only: one that nobody else can read, and that is gone at once."""
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        context.load_cert_chain(path, password=password)
    finally:
        Path(path).unlink()


def _pkcs12(path: str, password: str) -> tuple[str, str]:
    """Own certificate with its key, and the other certificates, both as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(Path(path).read_bytes(), password.encode() if password else None)
    encoding = serialization.Encoding.PEM
    own = ""
    if store.key is not None and store.cert is not None:
        key = store.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        own = key.decode() + store.cert.certificate.public_bytes(encoding).decode()
        own += "".join(one.certificate.public_bytes(encoding).decode() for one in store.additional_certs)
    others = [one.certificate for one in store.additional_certs]
    if store.key is None and store.cert is not None:
        others.append(store.cert.certificate)
    return own, "".join(one.public_bytes(encoding).decode() for one in others)
