"""The files that `goqueue security init` writes: an authority, certificates, and the settings that use them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from goqueue.errors import ConfigError

_SETTINGS = """\
# Written by `goqueue security init`. Start with: goqueue server --config {config}
[broker]
data_dir = "{data_dir}"

[listeners]
kafka = "tls://{kafka}"
advertised_kafka = "{advertised}"
http = "tls://{http}"

[tls]
certificate = "{folder}/server.pem"
key = "{folder}/server.key"
client_ca = "{folder}/ca.pem"

[security]
enabled = true
"""


def write_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """An authority, unless there is one, and new certificates for this node."""
    # Not above: only this command needs the library.
    from goqueue.security import certificates

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    if ca.exists() and ca_key.exists():
        authority = certificates.read(ca, ca_key)
    elif ca.exists() or ca_key.exists():
        raise ConfigError([f"{folder} has only one of ca.pem and ca.key: bring the other one back, or remove both"])
    else:
        authority = certificates.new_authority()
        certificates.write(authority, ca, ca_key)
    server = certificates.new_certificate(authority, hosts[0], hosts)
    certificates.write(server, folder / "server.pem", folder / "server.key")
    node = certificates.new_certificate(authority, "goqueue-node", hosts)
    certificates.write(node, folder / "node.pem", folder / "node.key")


def write_settings(path: Path, *, folder: Path, data_dir: str, kafka: str, http: str, advertised: str) -> bool:
    """The settings file, unless there is one: returns whether it was written."""
    from goqueue.security.certificates import write_private

    if path.exists():
        return False
    text = _SETTINGS.format(
        config=path, data_dir=data_dir, kafka=kafka, http=http, advertised=advertised, folder=folder
    )
    write_private(path, text.encode())
    return True


def default_hosts() -> list[str]:
    """The names under which this machine knows itself."""
    return list(dict.fromkeys([socket.gethostname(), "localhost", "127.0.0.1", "::1"]))
