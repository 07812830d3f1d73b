"""The etcd of a node that votes, as its settings have it, and the command that starts it.

A cluster is founded once: with the founding file that `goqueue cluster init` wrote, an empty directory begins a new
etcd, and the file is removed. Without it, an empty directory is a lost one. So is an old copy of a directory: its etcd
would vote as if it had never seen what was committed since.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.metadata.shared.etcd.servers import GET_ETCD, version_problem
from goqueue.node.config.cluster_settings import parse_url, voters_of
from goqueue.node.listeners.listening import CannotListen, bind

_HEARTBEAT_MS = 200
_ELECTION_MS = 2_000
# A watcher that is further behind reads everything again.
_REVISIONS_KEPT = 10_000


class Voter(msgspec.Struct, frozen=True):
    """What the settings say of this node's etcd."""

    node_id: int
    urls: Mapping[int, str]
    client_url: str
    directory: str
    token: str
    founding_file: str
    quota_bytes: int
    tls: tuple[str, str, str]
    # Where it takes other voters, if that is not where they are told to reach it.
    listen_url: str = ""

    @property
    def name(self) -> str:
        """The name of its member, for good; a member that was never started has none."""
        return member_name(self.node_id)

    @property
    def url(self) -> str:
        """Where the other voters reach it."""
        return self.urls[self.node_id]

    @property
    def has_data(self) -> bool:
        """Whether it was started here before."""
        return (Path(self.directory) / "member").is_dir()

    @property
    def is_founding(self) -> bool:
        """Whether an empty directory founds a cluster, because it has never been started."""
        return bool(self.founding_file) and Path(self.founding_file).exists()

    def make_directory(self) -> None:
        """Make sure that the directory is there, for its owner alone."""
        Path(self.directory).mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep_epoch(self, epoch: int) -> None:
        """Note, durably, that its node has registered with this broker epoch: an old copy has an older one. Blocks."""
        self.make_directory()
        path = self._epoch_file
        fresh = path.with_suffix(".tmp")
        with fresh.open("w") as file:
            file.write(f"{epoch}\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        _sync_directory(path.parent)

    @property
    def kept_epoch(self) -> int | None:
        """The broker epoch that was noted last; None if none was, or nobody can read it."""
        try:
            return int(self._epoch_file.read_text())
        except (OSError, ValueError):
            return None

    def set_aside(self) -> None:
        """Take the data away, so that its directory is a lost one; it stays beside it for whoever needs it."""
        directory = Path(self.directory)
        former = directory / "member.old"
        shutil.rmtree(former, ignore_errors=True)
        (directory / "member").rename(former)
        _sync_directory(directory)
        # Last: it says that this data is old. What the others send from now on is not.
        self._epoch_file.unlink(missing_ok=True)

    @property
    def _epoch_file(self) -> Path:
        return Path(self.directory) / "broker-epoch"

    def end_founding(self) -> None:
        """From here on an empty directory is a lost one."""
        if self.founding_file:
            Path(self.founding_file).unlink(missing_ok=True)


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def member_name(node_id: int) -> str:
    """The name under which the etcd of a node is a member."""
    return f"node-{node_id}"


def voter_of(config: Config) -> Voter | None:
    """This node's etcd; None if it runs none."""
    metadata, urls = config.metadata, voters_of(config)
    if metadata.mode != "managed" or config.broker.node_id not in urls:
        return None
    return Voter(
        node_id=config.broker.node_id,
        urls=urls,
        client_url=metadata.listen,
        directory=metadata.dir or str(Path(config.broker.data_dir).absolute() / "etcd"),
        token=metadata.token,
        founding_file=metadata.founding_file,
        quota_bytes=metadata.quota_bytes,
        tls=(metadata.tls_ca, metadata.tls_certificate, metadata.tls_key),
    )


def check_program() -> str:
    """The path of etcd; raises `ConfigError` if it is missing or of a version that loses data."""
    path = shutil.which("etcd")
    if path is None:
        raise ConfigError([f"metadata.mode is managed, but there is no program etcd on the PATH: {GET_ETCD}"])
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    version = said.partition("etcd Version:")[2].split("\n")[0].strip()
    problem = version_problem(version)
    if problem is not None:
        raise ConfigError([f"{path}: {problem}"])
    return path


def check_addresses(voter: Voter) -> None:
    """Raise `ConfigError` if another process has an address of this node's etcd: it may well be another cluster's."""
    problems = []
    for url in (voter.client_url, voter.url):
        try:
            bind(parse_url(url)).close()
        except CannotListen as error:
            problems.append(f"etcd of node {voter.node_id} {error}")
    if problems:
        raise ConfigError(problems)


def command_of(voter: Voter, program: str, cluster: Mapping[str, str] | None = None) -> list[str]:
    """The command line that starts this node's etcd. `cluster` has the members that it joins, by name."""
    state = "new" if voter.is_founding and not voter.has_data else "existing"
    if cluster is None:
        cluster = {member_name(number): url for number, url in voter.urls.items()}
    return [
        program,
        f"--name={voter.name}",
        f"--data-dir={voter.directory}",
        f"--listen-client-urls={voter.client_url}",
        f"--advertise-client-urls={voter.client_url}",
        f"--listen-peer-urls={voter.listen_url or voter.url}",
        f"--initial-advertise-peer-urls={voter.url}",
        f"--initial-cluster={','.join(f'{name}={url}' for name, url in cluster.items())}",
        f"--initial-cluster-state={state}",
        f"--initial-cluster-token={voter.token}",
        f"--heartbeat-interval={_HEARTBEAT_MS}",
        f"--election-timeout={_ELECTION_MS}",
        "--auto-compaction-mode=revision",
        f"--auto-compaction-retention={_REVISIONS_KEPT}",
        f"--quota-backend-bytes={voter.quota_bytes}",
        "--logger=zap",
        "--log-level=error",
        *_tls(voter),
    ]


def _tls(voter: Voter) -> list[str]:
    ca, certificate, key = voter.tls
    if not certificate:
        return []
    flags = []
    for prefix, url in (("", voter.client_url), ("peer-", voter.url)):
        if url.startswith("https"):
            flags += [f"--{prefix}cert-file={certificate}", f"--{prefix}key-file={key}"]
            flags += [f"--{prefix}trusted-ca-file={ca}", f"--{prefix}client-cert-auth"] if ca else []
    return flags
