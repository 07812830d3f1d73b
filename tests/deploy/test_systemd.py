"""The unit file, judged by systemd's own tools, and a broker that notifies as the unit expects."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.deploy.tools import DEPLOY, need

from goqueue.node.config.load_config import load

UNIT = DEPLOY / "systemd" / "goqueue.service"
# Half of what systemd calls "OK": each directive that is dropped adds to it.
EXPOSURE_MAX = 1.5


def unit_for_this_machine(tmp_path: Path) -> Path:
    """The unit with a program that exists here: `verify` looks for it."""
    unit = tmp_path / "goqueue.service"
    unit.write_text(UNIT.read_text().replace("/opt/goqueue/bin/", f"{Path(sys.executable).parent}/"))
    return unit


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    command = [need("systemd-analyze"), "verify", "--man=no", str(unit_for_this_machine(tmp_path))]

    judged = subprocess.run(command, capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stderr
    assert "goqueue.service" not in judged.stderr, judged.stderr


def test_systemd_refuses_a_broken_unit(tmp_path: Path) -> None:
    unit = unit_for_this_machine(tmp_path)
    unit.write_text(unit.read_text().replace("Type=notify", "Type=no-such-type"))

    judged = subprocess.run(
        [need("systemd-analyze"), "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )

    assert "goqueue.service" in judged.stderr


def test_the_service_is_hardly_exposed(tmp_path: Path) -> None:
    command = [need("systemd-analyze"), "security", "--offline=true", "--no-pager"]

    judged = subprocess.run(
        [*command, str(unit_for_this_machine(tmp_path))], capture_output=True, text=True, check=True
    )

    exposure = re.search(r"Overall exposure level for goqueue.service: ([\d.]+)", judged.stdout)
    assert exposure is not None
    assert float(exposure[1]) <= EXPOSURE_MAX


def test_the_settings_that_come_with_the_unit_are_accepted_and_on_loopback() -> None:
    config = load(str(DEPLOY / "systemd" / "goqueue.toml"), {}, {"broker.data_dir": "/var/lib/goqueue"})

    assert config.listeners.kafka.startswith("127.0.0.1:")
    assert not config.listeners.allow_insecure


def test_a_broker_under_a_service_manager_says_when_it_serves_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        places = ["--data-dir", str(tmp_path / "data"), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        broker = subprocess.Popen(
            [sys.executable, "-m", "goqueue", "server", *places],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            stdout=subprocess.DEVNULL,
        )
        try:
            ready = manager.recv(1000).decode()
            address = re.search(r"Kafka on (\S+):(\d+),", ready)
            assert ready.startswith("READY=1\n")
            assert address is not None
            # It serves by the time that it says so.
            socket.create_connection((address[1], int(address[2])), timeout=10).close()
            broker.terminate()
            assert manager.recv(1000).startswith(b"STOPPING=1")
            assert broker.wait(30) == 0
        finally:
            broker.kill()
            broker.wait()
