"""What must be ours before anything is opened: the addresses and the data directory.

All that stands in the way is reported at once, and then nothing has been touched. The
lock on the directory is the first thing taken and the last one released.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from goqueue.config import Config
from goqueue.errors import ConfigError, GoQueueError
from goqueue.metadata.image import Image
from goqueue.node.config.addresses import Address
from goqueue.node.config.listeners import ListenerSpec, listeners_of
from goqueue.node.disk.os_files import OsFiles
from goqueue.node.listeners.listening import bind, bound_address

LOCK_FILE = ".lock"
# A broker writes its metadata right after it has locked the directory; builds of all ages have both.
_OURS = frozenset({LOCK_FILE, "metadata"})
# The root of a freshly formatted disk is as good as an empty directory, and the etcd of a node may have been first.
_HARMLESS = frozenset({"lost+found", "etcd"})
_SHOWN_NAMES_MAX = 3


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket, the address under which it can be reached, and the address that clients are told."""

    socket: socket.socket
    address: Address
    spec: ListenerSpec

    @property
    def advertised(self) -> Address:
        """Where clients are told to connect to."""
        return self.spec.advertised or self.address


def claim_listeners(config: Config, stack: ExitStack) -> tuple[Listener, ...]:
    """Every listener, bound; raises `ConfigError` with all that is in the way."""
    problems: list[str] = []
    claimed: list[Listener] = []
    with ExitStack() as attempt:
        for spec in listeners_of(config):
            try:
                bound = attempt.enter_context(bind(spec.address))
            except GoQueueError as error:
                problems.append(str(error))
            else:
                claimed.append(Listener(bound, bound_address(spec.address, bound), spec))
        if problems:
            raise ConfigError(problems + _lock_problems(config.broker.data_dir))
        stack.push(attempt.pop_all())
    return tuple(claimed)


def claim_directory(data_dir: str, stack: ExitStack) -> OsFiles:
    """The data directory, made if need be, and locked until the stack unwinds."""
    try:
        _refuse_foreign(Path(data_dir))
        files = OsFiles(data_dir, create=True)
    except OSError as error:
        raise ConfigError([f"data directory {Path(data_dir).absolute()}: {os.strerror(error.errno or 0)}"]) from error
    stack.callback(files.close)
    try:
        stack.enter_context(files.lock(LOCK_FILE))
    except OSError as error:
        raise ConfigError([f"data directory {files.root}: {os.strerror(error.errno or 0)}"]) from error
    return files


def _refuse_foreign(directory: Path) -> None:
    """Raise when the directory holds something, and no broker put it there."""
    if not directory.is_dir():
        return
    names = sorted({path.name for path in directory.iterdir()} - _HARMLESS)
    if not names or not _OURS.isdisjoint(names):
        return
    more = ", ..." if len(names) > _SHOWN_NAMES_MAX else ""
    raise ConfigError(
        [
            (
                f"data directory {directory.absolute()}: not empty, and not the data directory of a broker "
                f"(it holds {', '.join(names[:_SHOWN_NAMES_MAX])}{more}): "
                "set broker.data_dir (--data-dir) to an empty or a new directory"
            )
        ]
    )


def check_node_id(image: Image, *, node_id: int, data_dir: str) -> None:
    """Refuse data that belongs to another node: clients would be sent to a leader that does not exist.

    Which node data belongs to is in the metadata, with each partition's leader; so it is known of data of every
    version. Data without topics belongs to nobody.
    """
    leaders = image.leaders()
    if not leaders or node_id in leaders:
        return
    owners, right = " and ".join(map(str, sorted(leaders))), min(leaders)
    problem = (
        f"broker.node_id is {node_id}, but the data in {data_dir} belongs to node {owners}: "
        f"start with --node-id {right} (or GOQUEUE_BROKER_NODEID={right}, or node_id in the [broker] section of the "
        "configuration file), or name another directory with --data-dir"
    )
    raise ConfigError([problem])


def _lock_problems(data_dir: str) -> list[str]:
    """Whether the directory is in use too: only looked at, and only if it is there."""
    if not (Path(data_dir) / LOCK_FILE).is_file():
        return []
    try:
        with ExitStack() as stack:
            claim_directory(data_dir, stack)
    except GoQueueError as error:
        return [str(error)]
    return []
