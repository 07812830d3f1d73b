"""Notifications to systemd, over a real datagram socket as systemd opens one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.node.process.service_manager import announced, notify


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(5)
        yield receiver


def test_ready_and_stopping_are_announced_in_this_order(manager: socket.socket) -> None:
    with announced("Kafka on 127.0.0.1:9092", {"NOTIFY_SOCKET": manager.getsockname()}):
        assert manager.recv(1000) == b"READY=1\nSTATUS=Kafka on 127.0.0.1:9092"

    assert manager.recv(1000) == b"STOPPING=1\nSTATUS=stopping"


def test_stopping_is_announced_after_a_failure_too(manager: socket.socket) -> None:
    with pytest.raises(OSError, match="disk"), announced("", {"NOTIFY_SOCKET": manager.getsockname()}):
        raise OSError("disk")

    assert manager.recv(1000).startswith(b"READY=1")
    assert manager.recv(1000).startswith(b"STOPPING=1")


def test_a_socket_of_the_abstract_namespace_is_reached() -> None:
    name = f"goqueue-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + name)
        receiver.settimeout(5)

        assert notify("READY=1", {"NOTIFY_SOCKET": f"@{name}"})

        assert receiver.recv(100) == b"READY=1"


def test_outside_of_systemd_nothing_is_sent() -> None:
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": ""})


def test_a_manager_that_is_gone_is_reported_and_does_not_stop_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with announced("", {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        pass

    assert "could not notify the service manager" in caplog.text
