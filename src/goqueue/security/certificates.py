"""Certificates of one's own: an authority, and certificates for nodes and clients that it signs.

Used by `goqueue security init` and by tests. A broker never signs anything.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from goqueue.cluster.tcp.certificates import NODE_URI

_CA_DAYS, _CERTIFICATE_DAYS = 3650, 397
_BACKDATED = dt.timedelta(minutes=5)


class Pair(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_authority(name: str = "GoQueue CA", *, days: int = _CA_DAYS) -> Pair:
    """An authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def new_certificate(
    authority: Pair,
    name: str,
    hosts: Sequence[str] = (),
    *,
    days: int = _CERTIFICATE_DAYS,
    is_client: bool = False,
    node_id: int | None = None,
) -> Pair:
    """A certificate for a node that is reached under these hosts, or for a client.

    With `node_id` it speaks for that node of a cluster alone (see `goqueue.cluster.tcp.certificates`).
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, authority.certificate.subject, key.public_key(), days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    # A node is a client of other nodes too.
    usages = (
        [ExtendedKeyUsageOID.CLIENT_AUTH]
        if is_client
        else [
            ExtendedKeyUsageOID.SERVER_AUTH,
            ExtendedKeyUsageOID.CLIENT_AUTH,
        ]
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    names = [_host(one) for one in hosts]
    if node_id is not None:
        names.append(x509.UniformResourceIdentifier(f"{NODE_URI}{node_id}"))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def write(pair: Pair, certificate: Path, key: Path, *more: x509.Certificate) -> None:
    """Write both as PEM, the key where only its owner can read it. Each file is replaced as a whole."""
    chain = b"".join(one.public_bytes(serialization.Encoding.PEM) for one in (pair.certificate, *more))
    private = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(key, private)
    write_private(certificate, chain, mode=0o644)


def write_certificate(pair: Pair, path: Path) -> None:
    """Write the certificate alone, as PEM, for those who trust it."""
    write_private(path, pair.certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def hosts_of(path: Path) -> list[str]:
    """The names and addresses under which the holder of a certificate is reached."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(one.value) for one in names if isinstance(one, x509.DNSName | x509.IPAddress)]


def read(certificate: Path, key: Path) -> Pair:
    """A pair that was written before."""
    found = serialization.load_pem_private_key(key.read_bytes(), password=None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{key} is not a key of this program")
    return Pair(x509.load_pem_x509_certificate(certificate.read_bytes()), found)


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file; at no moment can others read what is in it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
