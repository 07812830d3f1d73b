"""What must be ours before anything is opened: the addresses and the data directory.

All that stands in the way is reported at once, and then nothing has been touched. The
lock on the directory is the first thing taken and the last one released (W33).
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from goqueue.config import Config
from goqueue.errors import ConfigError, GoQueueError
from goqueue.node.addresses import Address, parse_address
from goqueue.node.listening import bind, bound_address
from goqueue.node.os_files import OsFiles

LOCK_FILE = ".lock"


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket and the address under which it can be reached."""

    socket: socket.socket
    address: Address


def claim_listeners(config: Config, stack: ExitStack) -> tuple[Listener, Listener]:
    """The Kafka and the HTTP listener, bound; raises `ConfigError` with all that is in the way."""
    problems: list[str] = []
    claimed: list[Listener] = []
    with ExitStack() as attempt:
        for text in (config.listeners.kafka, config.listeners.http):
            wanted = parse_address(text)
            try:
                bound = attempt.enter_context(bind(wanted))
            except GoQueueError as error:
                problems.append(str(error))
            else:
                claimed.append(Listener(bound, bound_address(wanted, bound)))
        if problems:
            raise ConfigError(problems + _lock_problems(config.broker.data_dir))
        stack.push(attempt.pop_all())
    kafka, http = claimed
    return kafka, http


def claim_directory(data_dir: str, stack: ExitStack) -> OsFiles:
    """The data directory, made if need be, and locked until the stack unwinds."""
    try:
        files = OsFiles(data_dir, create=True)
    except OSError as error:
        raise ConfigError([f"data directory {Path(data_dir).absolute()}: {os.strerror(error.errno or 0)}"]) from error
    stack.callback(files.close)
    try:
        stack.enter_context(files.lock(LOCK_FILE))
    except OSError as error:
        raise ConfigError([f"data directory {files.root}: {os.strerror(error.errno or 0)}"]) from error
    return files


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
