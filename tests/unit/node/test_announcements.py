"""The banner and the ready file."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from goqueue.errors import ConfigError
from goqueue.node.config.addresses import Address
from goqueue.node.node import Running
from goqueue.node.process.banner import show_banner
from goqueue.node.process.ready_file import check_ready_file, ready_file

SERVICES = SimpleNamespace(
    identity=SimpleNamespace(version="1.2.3", node_id=4, commit="0123456789", built="2026-01-02T03:04:05Z")
)
RUNNING = Running(SERVICES, "/var/lib/goqueue", Address("127.0.0.1", 9092), Address("::1", 8080))  # type: ignore[arg-type]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_banner_says_who_where_and_what_next() -> None:
    out = io.StringIO()
    show_banner(RUNNING, out)
    lines = out.getvalue().splitlines()
    assert lines[:5] == [
        "GoQueue 1.2.3 is ready (node 4)",
        "Build  commit 01234567, built 2026-01-02T03:04:05Z",
        "Kafka  127.0.0.1:9092",
        "HTTP   http://[::1]:8080",
        "Data   /var/lib/goqueue",
    ]
    assert "kcat -P -b 127.0.0.1:9092" in lines[5]


def test_the_next_step_works_on_all_interfaces_and_with_security() -> None:
    identity = SimpleNamespace(**vars(SERVICES.identity), kafka_host="broker.example")
    everywhere = {"services": SimpleNamespace(identity=identity), "kafka": Address("0.0.0.0", 9092)}
    out = io.StringIO()
    show_banner(replace(RUNNING, **everywhere), out)
    assert "kcat -P -b broker.example:9092 -t first, then kcat -C -b broker.example:9092" in out.getvalue()

    out = io.StringIO()
    api = Address("0.0.0.0", 8080)
    secured = replace(RUNNING, **everywhere, http=api, listeners={"http": api}, tls=frozenset({"http"}))
    secured = replace(secured, client_ca="/etc/goqueue/ca.pem")
    show_banner(replace(secured, security=SimpleNamespace()), out)
    line = next(line for line in out.getvalue().splitlines() if line.startswith("Next"))
    assert "kcat" not in line
    assert "GOQUEUE_SERVER=https://broker.example:8080 GOQUEUE_API_KEY=" in line
    assert "GOQUEUE_CA=/etc/goqueue/ca.pem goqueue security whoami" in line

    out = io.StringIO()
    show_banner(replace(RUNNING, listeners={"kafka": RUNNING.kafka}, tls=frozenset({"kafka"})), out)
    assert "goqueue health --server http://[::1]:8080" in out.getvalue()


def test_only_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain, terminal = io.StringIO(), Terminal()
    show_banner(RUNNING, plain)
    show_banner(RUNNING, terminal)
    assert "\x1b" not in plain.getvalue()
    assert "\x1b" in terminal.getvalue()
    assert "127.0.0.1:9092" in terminal.getvalue()


def test_the_ready_file_is_there_while_the_broker_serves(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    with ready_file(str(path), RUNNING):
        assert json.loads(path.read_text()) == {
            "pid": os.getpid(),
            "kafka": "127.0.0.1:9092",
            "http": "[::1]:8080",
            "listeners": {},
        }
        assert [one.name for one in tmp_path.iterdir()] == ["ready.json"]
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_that_somebody_removed_is_no_problem_at_the_stop(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    with ready_file(str(path), RUNNING):
        path.unlink()


def test_without_a_ready_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_ready_file(None)
    with ready_file(None, RUNNING):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "missing/ready.json"])
def test_a_ready_file_that_cannot_be_written_is_refused_beforehand(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="--ready-file"):
        check_ready_file(str(tmp_path / name))
