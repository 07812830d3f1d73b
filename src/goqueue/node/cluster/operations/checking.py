"""Whether the settings files of a cluster's nodes fit together, and whether this machine can run its nodes.

Everything is looked at, and all that is wrong is told at once. Nothing is changed. Whether machines reach each other
is the work of `probing`.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.node.cluster.voter import check_program, voter_of
from goqueue.node.config.addresses import Address
from goqueue.node.config.cluster_settings import is_clustered, parse_url, peer_address, peers_of, read_secrets
from goqueue.node.config.listeners import listeners_of
from goqueue.node.config.load_config import load
from goqueue.node.listeners.listening import CannotListen, bind

# What all nodes of a cluster must have alike, by section.
_SHARED = (
    ("cluster", "peers"),
    ("metadata", "mode"),
    ("metadata", "voters"),
    ("metadata", "token"),
    ("metadata", "prefix"),
)


def load_all(files: Sequence[Path]) -> tuple[dict[Path, Config], list[str]]:
    """The settings in these files, and what is wrong with those that cannot be used."""
    found: dict[Path, Config] = {}
    problems: list[str] = []
    for file in files:
        try:
            config = load(str(file), {}, {})
        except ConfigError as error:
            problems += error.problems
            continue
        if is_clustered(config):
            found[file] = config
        else:
            problems.append(f"{file}: metadata.mode is embedded: this node is in no cluster")
    return found, problems


def misfits(configs: Mapping[Path, Config]) -> Iterator[str]:
    """Where the settings of different nodes contradict each other."""
    if not configs:
        return
    first_file, first = next(iter(configs.items()))
    ids = Counter(config.broker.node_id for config in configs.values())
    for node_id, count in sorted(ids.items()):
        if count > 1:
            files = ", ".join(str(file) for file, config in configs.items() if config.broker.node_id == node_id)
            yield f"broker.node_id {node_id} is in {count} files: {files}"
    for file, config in configs.items():
        for section, name in _SHARED:
            mine, theirs = (getattr(getattr(one, section), name) for one in (config, first))
            if mine != theirs:
                yield f"{file}: {section}.{name} differs from that in {first_file}: {mine!r}, not {theirs!r}"
        secrets, others = (frozenset(read_secrets(one.cluster.secret_file)) for one in (config, first))
        if not secrets & others:
            yield f"{file}: cluster.secret_file has no secret in common with that of {first_file}"
    yield from _shared_addresses(configs)


def here(configs: Mapping[Path, Config]) -> dict[Path, Config]:
    """Those of the nodes whose address for other nodes is one of this machine."""
    return {file: config for file, config in configs.items() if _is_here(peer_address(config))}


def machine_problems(configs: Mapping[Path, Config]) -> Iterator[str]:
    """What keeps this machine from running these nodes: addresses, etcd, certificates, directories."""
    voting = {file: voter for file, config in configs.items() if (voter := voter_of(config)) is not None}
    if voting:
        try:
            check_program()
        except ConfigError as error:
            yield from error.problems
    for file, config in configs.items():
        yield from (f"{file}: {problem}" for problem in addresses_in_use(config))
        yield from (f"{file}: {problem}" for problem in _certificate_problems(config))
        directory = Path(config.broker.data_dir).absolute()
        parent = next(one for one in (directory, *directory.parents) if one.exists())
        if not os.access(parent, os.W_OK):
            yield f"{file}: broker.data_dir: {parent} cannot be written"


def addresses_in_use(config: Config) -> list[str]:
    """Which of a node's addresses it cannot listen on, each with its setting and the reason."""
    problems = []
    for name, address in addresses_of(config):
        try:
            bind(address).close()
        except CannotListen as error:
            problems.append(f"{name} {error}")
    return problems


def addresses_of(config: Config) -> Iterator[tuple[str, Address]]:
    """Every address that a node listens on, with the setting that names it."""
    for one in listeners_of(config):
        yield f"listeners.{one.name}", one.address
    yield "cluster.listen", peer_address(config)
    voter = voter_of(config)
    if voter is not None:
        yield "metadata.listen", parse_url(voter.client_url)
        yield "metadata.voters", parse_url(voter.url)


def unresolved(config: Config) -> Iterator[str]:
    """Hosts of other nodes that this machine has no address for."""
    for node_id, address in peers_of(config).items():
        try:
            socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            yield f"cluster.peers: {address.host} of node {node_id} has no address here: {error.strerror}"


def _shared_addresses(configs: Mapping[Path, Config]) -> Iterator[str]:
    taken: dict[Address, str] = {}
    for file, config in configs.items():
        for name, address in addresses_of(config):
            # On all interfaces, or on a port that the system chooses, it is another one on every machine.
            if address.is_everywhere or address.port == 0:
                continue
            if address in taken:
                yield f"{file}: {name} is {address}, which {taken[address]} is too"
            taken.setdefault(address, f"{name} in {file}")


def _is_here(address: Address) -> bool:
    try:
        bind(Address(address.host, 0)).close()
    except CannotListen:
        return False
    return True


def _certificate_problems(config: Config) -> Iterator[str]:
    metadata = config.metadata
    if not (metadata.tls_ca and metadata.tls_certificate):
        return
    # Not above: a cluster without TLS does not need the library.
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        authority = x509.load_pem_x509_certificate(Path(metadata.tls_ca).read_bytes())
        found = x509.load_pem_x509_certificate(Path(metadata.tls_certificate).read_bytes())
    except (OSError, ValueError) as error:
        yield f"metadata.tls_certificate: {error}"
        return
    try:
        found.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        yield f"metadata.tls_certificate: {metadata.tls_certificate} is not signed by {metadata.tls_ca}"
    now = dt.datetime.now(dt.UTC)
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        yield (
            f"metadata.tls_certificate: {metadata.tls_certificate} is valid from {found.not_valid_before_utc:%F %T} to "
            f"{found.not_valid_after_utc:%F %T} UTC, and it is {now:%F %T} here"
        )
    voter = voter_of(config)
    if voter is not None:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
        host = parse_url(voter.url).host
        if host not in known:
            yield f"metadata.tls_certificate: {metadata.tls_certificate} is not for {host}, but for {sorted(known)}"
