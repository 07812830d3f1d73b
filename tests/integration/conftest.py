"""The broker's services on real files and real threads, without sockets."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.broker.stack import Stack

from goqueue.config import Config
from goqueue.node.disk.offload import ThreadOffload
from goqueue.node.disk.os_files import OsFiles
from goqueue.node.system_clock import SystemClock

OpenStack = Callable[..., Awaitable[Stack]]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


@pytest.fixture
async def open_stack(data_dir: Path) -> AsyncIterator[OpenStack]:
    """Open the services on the data directory, or on another. Threads end with the test."""
    offload = ThreadOffload("test", threads_max=4)

    async def open_(directory: Path = data_dir, config: Config | None = None) -> Stack:
        stack = Stack(OsFiles(str(directory)), SystemClock(), config=config, offload=offload, seed=hash(directory))
        return await stack.start()

    yield open_
    offload.close()


def copy_as_after_kill(data_dir: Path, target: Path) -> Path:
    """What a process killed at this moment leaves: the files as the page cache has them."""
    shutil.copytree(data_dir, target)
    return target
