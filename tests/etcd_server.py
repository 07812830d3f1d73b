"""A real etcd for tests: one server on free ports, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

START_SECONDS_MAX = 20.0


class EtcdServer:
    """One etcd in a process."""

    def __init__(self, home: Path, *, options: Sequence[str] = (), scheme: str = "http") -> None:
        """With the scheme https, `options` name the certificates."""
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.port, self._peer_port = free_ports(2)
        self._options, self._scheme = options, scheme
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def start(self) -> EtcdServer:
        """Start, and return once it answers."""
        peer = f"http://127.0.0.1:{self._peer_port}"
        with (self.home / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "etcd",
                    f"--data-dir={self.home / 'data'}",
                    f"--listen-client-urls={self.url}",
                    f"--advertise-client-urls={self.url}",
                    f"--listen-peer-urls={peer}",
                    f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=default={peer}",
                    "--logger=zap",
                    "--log-level=warn",
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert self._process.poll() is None, (self.home / "etcd.log").read_text()
            assert time.monotonic() < deadline, "etcd does not answer"
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """End it. Harmless when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: its connections stay open, and it answers nothing."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGSTOP)

    def compact(self, revision: int) -> None:
        """Forget the changes up to that revision."""
        require_etcdctl()
        environment = {"ETCDCTL_API": "3", "PATH": os.environ["PATH"]}
        command = ["etcdctl", f"--endpoints={self.url}", "compact", str(revision)]
        subprocess.run(command, check=True, env=environment, capture_output=True)

    def _answers(self) -> bool:
        if self._scheme == "https":
            # Whoever asks needs a certificate: that it listens has to do.
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except OSError:
            return False


def require_etcd() -> None:
    """Skip the test where there is no etcd."""
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed: apt install etcd-server")


def free_ports(count: int) -> list[int]:
    """Ports that are free at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def require_etcdctl() -> None:
    """Skip the test where etcd has no command line, which is a package of its own."""
    if shutil.which("etcdctl") is None:
        pytest.skip("etcdctl is not installed: apt install etcd-client")
