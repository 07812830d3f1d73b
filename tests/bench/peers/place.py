"""Where and with what something is measured: the machine, the code, the clients."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from tests.bench.peers.findings import Finding
from tests.bench.peers.scale import Scale
from tests.bench.peers.servers import Peer

ROOT = Path(__file__).parents[3]
CLIENTS = ("confluent-kafka", "redis", "nats-py", "pika")
# What the figures depend on. The rest of the tree may change under a run.
MEASURED = ("src", "tests/bench")


def finding(peers: Sequence[Peer], scale: Scale, skipped: dict[str, str]) -> Finding:
    """A run of these peers here and now, with nothing measured yet."""
    return Finding(
        machine=machine(),
        commit=_git("rev-parse", "--short=12", "HEAD") or "unknown",
        code=code(),
        clients={name: found for name in CLIENTS if (found := _installed(name))},
        scale=asdict(scale),
        peers=[{"name": one.name, "version": one.version(), "durable": one.durability} for one in peers],
        skipped=skipped,
    )


def machine() -> dict[str, str]:
    """What the figures belong to."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    return {
        "processor": f"{model}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def code() -> str:
    """The same for the same content of what is measured and of what measures it, committed or not."""
    trees = [_git("rev-parse", f"HEAD:{folder}") for folder in MEASURED]
    changes = _git("diff", "HEAD", "--", *MEASURED)
    return hashlib.blake2b("\n".join([*trees, changes]).encode(), digest_size=8).hexdigest()


def skipped(peers: Sequence[Peer]) -> dict[str, str]:
    """Who cannot take part, and how to change that."""
    return {peer.name: reason for peer in peers if (reason := peer.missing()) is not None}


def _git(*arguments: str) -> str:
    """What git says; nothing without git, or outside a repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
