"""Settings of a cluster as they are written, and what they mean: peers, voters, secrets, endpoints."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from goqueue.config import Config
from goqueue.node.config.addresses import Address, parse_address

SECRET_CHARACTERS_MIN = 16
_SCHEMES = ("http", "https")
_VOTERS_ALLOWED = (1, 3, 5)
_UNENCRYPTED = (
    "{address} can be reached from other machines, and what is replicated would travel unencrypted: use the settings "
    "that 'goqueue cluster init' writes, set cluster.tls and its files, or cluster.allow_insecure to accept the risk"
)
_UNPROTECTED_ETCD = (
    "{url} can be reached from other machines, and etcd would let everybody in: use https with certificates, as "
    "'goqueue cluster init' writes it, or set cluster.allow_insecure to accept the risk"
)

Problem = tuple[str, str]


def is_clustered(config: Config) -> bool:
    """Whether this node is one of a cluster."""
    return config.metadata.mode != "embedded"


def peers_of(config: Config) -> Mapping[int, Address]:
    """The nodes of the cluster with their addresses for each other, by id; raises ValueError."""
    return {node_id: parse_address(text) for node_id, text in _numbered(config.cluster.peers, "host:port").items()}


def voters_of(config: Config) -> Mapping[int, str]:
    """The nodes that run an etcd, with its URL for the others, by id; raises ValueError."""
    voters = _numbered(config.metadata.voters, "URL")
    for url in voters.values():
        parse_url(url)
    return voters


def endpoints_of(config: Config) -> Sequence[str]:
    """The URLs of the etcd servers that this node asks, its own first."""
    metadata = config.metadata
    own = [metadata.listen] if metadata.mode == "managed" and config.broker.node_id in voters_of(config) else []
    return [*own, *(url for url in metadata.endpoints if url not in own)]


def peer_address(config: Config) -> Address:
    """Where this node takes connections of others."""
    cluster = config.cluster
    return parse_address(cluster.listen) if cluster.listen else peers_of(config)[config.broker.node_id]


def read_secrets(path: str) -> list[bytes]:
    """The secrets in that file, the current one first; raises OSError."""
    return [line.strip() for line in Path(path).read_bytes().splitlines() if line.strip()]


def parse_url(text: str) -> Address:
    """The address of an http or https URL without a path; raises ValueError."""
    scheme, separator, place = text.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ValueError(f"{text!r} is not a URL: write http://host:port or https://host:port")
    return parse_address(place.rstrip("/"))


def cluster_problems(config: Config) -> Iterator[Problem]:
    """What is wrong with these settings, each by the setting that it concerns."""
    if not is_clustered(config):
        if config.cluster.peers:
            yield "metadata.mode", "a node with cluster.peers needs metadata.mode managed or external"
        return
    if find_spec("grpc") is None or find_spec("google.protobuf") is None:
        yield "metadata.mode", "a cluster needs a client for etcd: pip install 'goqueue[cluster]'"
    yield from _peer_problems(config)
    yield from _secret_problems(config.cluster.secret_file)
    yield from _tls_problems(config)
    yield from _metadata_problems(config)
    if not config.metadata.prefix.startswith("/") or config.metadata.prefix.endswith("/"):
        yield "metadata.prefix", f"{config.metadata.prefix!r} must begin with a slash and not end with one"


def _peer_problems(config: Config) -> Iterator[Problem]:
    own, cluster = config.broker.node_id, config.cluster
    try:
        peers = peers_of(config)
    except ValueError as error:
        yield "cluster.peers", str(error)
        return
    if own not in peers:
        yield "cluster.peers", f"node {own} (broker.node_id) is not among them: name every node, this one included"
    for name in ("listen", "advertised"):
        text = getattr(cluster, name)
        try:
            address = parse_address(text) if text else None
        except ValueError as error:
            yield f"cluster.{name}", f"{text!r}: {error}"
        else:
            if name == "advertised" and address is not None and (address.is_everywhere or address.port == 0):
                yield "cluster.advertised", f"{text} is not an address that another node can connect to"
    for node_id, address in peers.items():
        if address.is_everywhere or (address.port == 0 and not cluster.advertised):
            yield "cluster.peers", f"node {node_id}: {address} is not an address that another node can connect to"
    copies = cluster.replication_factor
    if copies > len(peers):
        yield "cluster.replication_factor", f"{copies} is more than the {len(peers)} nodes of cluster.peers"
    if copies and cluster.min_insync_replicas > copies:
        yield "cluster.min_insync_replicas", f"{cluster.min_insync_replicas} is more than cluster.replication_factor"


def _secret_problems(path: str) -> Iterator[Problem]:
    setting = "cluster.secret_file"
    if not path:
        yield setting, "nodes recognise each other by a secret: name the file, which `goqueue cluster init` writes"
        return
    try:
        mode = Path(path).stat().st_mode
        secrets = read_secrets(path)
    except OSError as error:
        yield setting, f"{path}: {os.strerror(error.errno or 0)}"
        return
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield setting, f"{path} can be read by others than its owner: chmod 600 {path}"
    if not secrets or any(len(secret) < SECRET_CHARACTERS_MIN for secret in secrets):
        yield setting, f"{path}: a secret has at least {SECRET_CHARACTERS_MIN} characters"


def _tls_problems(config: Config) -> Iterator[Problem]:
    """TLS between nodes: its files, and that there is some where other machines reach this one."""
    cluster = config.cluster
    if cluster.tls != "off":
        for name in ("tls_ca", "tls_certificate", "tls_key"):
            text = getattr(cluster, name)
            if not text:
                yield f"cluster.{name}", f"cluster.tls is {cluster.tls}: name the file"
            elif not os.access(text, os.R_OK):
                yield f"cluster.{name}", f"{text} cannot be read"
        return
    try:
        address = peer_address(config)
    except (ValueError, KeyError):
        # The addresses themselves are wrong, and reported as such.
        return
    if not address.is_loopback and not cluster.allow_insecure:
        yield "cluster.tls", _UNENCRYPTED.format(address=address)


def _voter_tls_problems(config: Config, voters: Mapping[int, str]) -> Iterator[Problem]:
    """The etcd that this node runs: without certificates, whoever reaches it can change everything."""
    metadata, own = config.metadata, config.broker.node_id
    if own not in voters:
        return
    for setting, url in (("metadata.listen", metadata.listen), ("metadata.voters", voters[own])):
        if url.startswith("https"):
            for name in ("tls_ca", "tls_certificate", "tls_key"):
                if not getattr(metadata, name):
                    yield f"metadata.{name}", f"{url} uses TLS: name the file"
        elif not parse_url(url).is_loopback and not config.cluster.allow_insecure:
            yield setting, _UNPROTECTED_ETCD.format(url=url)


def _metadata_problems(config: Config) -> Iterator[Problem]:
    metadata = config.metadata
    for name in ("tls_ca", "tls_certificate", "tls_key", "password_file"):
        text = getattr(metadata, name)
        if text and not os.access(text, os.R_OK):
            yield f"metadata.{name}", f"{text} cannot be read"
    for url in (*metadata.endpoints, metadata.listen):
        try:
            parse_url(url)
        except ValueError as error:
            yield "metadata.listen" if url == metadata.listen else "metadata.endpoints", str(error)
    if metadata.mode == "external":
        if not metadata.endpoints:
            yield "metadata.endpoints", "name the URLs of the etcd servers"
        return
    try:
        voters = voters_of(config)
    except ValueError as error:
        yield "metadata.voters", str(error)
        return
    if len(voters) not in _VOTERS_ALLOWED:
        yield "metadata.voters", f"there are {len(voters)}: one, three or five nodes run an etcd"
    with suppress(ValueError):
        # An address that is none is reported above.
        yield from _voter_tls_problems(config, voters)
    if config.broker.node_id not in voters and not metadata.endpoints:
        yield "metadata.endpoints", "this node runs no etcd: name the URLs of those of the voters"


def _numbered(texts: Sequence[str], form: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for text in texts:
        number, equals, rest = text.partition("=")
        if not equals or not number.strip().isdecimal() or not rest.strip():
            raise ValueError(
                f"{text!r}: write id={form}, as in 1={'10.0.0.1:9094' if form != 'URL' else 'http://10.0.0.1:2380'}"
            )
        if int(number) in found:
            raise ValueError(f"node {int(number)} is named twice")
        found[int(number)] = rest.strip()
    return found
