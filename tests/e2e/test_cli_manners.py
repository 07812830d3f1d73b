"""The command line on a bad day: wrong addresses, bytes that are not text, topics that do not exist, Ctrl-C."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.http import Http

from goqueue.build_info import build_info

GOQUEUE = Path(sys.executable).with_name("goqueue")


@pytest.fixture
def cli(broker, tmp_path):
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}", "HOME": str(tmp_path)}

    def run(*arguments, stdin=None):
        return subprocess.run(
            [GOQUEUE, *arguments], input=stdin, capture_output=True, env=environment, timeout=60, check=False
        )

    return run


def test_a_bad_address_is_one_line_and_exit_code_2(cli):
    for address in ("http://[bad", "kafka://127.0.0.1:9092", "http://"):
        ended = cli("topic", "list", "--server", address)
        assert ended.returncode == 2
        assert b"is not an address of the HTTP API" in ended.stderr
        assert b"Traceback" not in ended.stderr


def test_a_topic_that_does_not_exist_needs_create(cli, broker):
    refused = cli("produce", "manners-typo", "-m", "x")
    assert (refused.returncode, b"--create" in refused.stderr) == (1, True)
    assert Http(broker.http).refused("GET", "/topics/manners-typo")[0] == 404
    assert cli("produce", "manners-typo", "-m", "x", "--create").returncode == 0


def test_bytes_that_are_not_text_are_sent_as_they_are(cli, broker):
    assert cli("produce", "manners-bytes", "--create", stdin=b"\xff\xfe\nplain\n").returncode == 0
    assert cli("produce", "manners-bytes", b"\xfd", "--key", b"\xfc", "--header", b"h=\xfb").returncode == 0
    rows = [json.loads(line) for line in cli("consume", "manners-bytes", "--format", "json").stdout.splitlines()]
    (last,) = [row for row in rows if row["key"] is not None]
    assert {name: base64.b64decode(last[name]) for name in ("value", "key")} == {"value": b"\xfd", "key": b"\xfc"}
    assert (last["encoding"], base64.b64decode(last["headers"]["h"])) == ("base64", b"\xfb")
    assert "encoding" not in next(row for row in rows if row["value"] == "plain")
    ended = cli("consume", "manners-bytes")
    assert b"Traceback" not in ended.stderr
    assert ended.returncode == 0


def test_a_file_has_bytes_as_base64(cli, tmp_path):
    row = {"value": "//4=", "key": "/w==", "headers": {"h": "/g=="}, "encoding": "base64"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "encoding": "hex"}))
    ended = cli("produce", "manners-base64", "--create", "-f", str(tmp_path / "rows.jsonl"))
    assert b"line 2: encoding='hex'" in ended.stderr
    (stored,) = cli("consume", "manners-base64", "--format", "json").stdout.splitlines()
    assert {name: json.loads(stored)[name] for name in row} == row


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "describe", b"\xff"),
        ("produce", "manners-bytes", "--create", "-m", "x", "--dedup-id", b"\xff"),
        ("queue", "reject", "receipt", "--error", b"\xff"),
    ],
)
def test_a_name_that_is_not_utf_8_is_one_line_and_exit_code_2(cli, arguments):
    ended = cli(*arguments)
    assert (ended.returncode, b"UTF-8" in ended.stderr, b"Traceback" in ended.stderr) == (2, True, False)


def test_a_file_blames_the_lines_that_failed_and_says_what_was_stored(cli, tmp_path):
    rows = [{"value": f"good {n}"} for n in range(5)]
    # The broker refuses the whole batch because of this one; its neighbours are stored all the same.
    rows.insert(2, {"value": "late", "timestamp": 2**60})
    rows.insert(4, {"value": "y", "priority": "urgent"})
    rows.insert(6, {"value": "z", "colour": "red"})
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))

    ended = cli("produce", "manners-file", "--create", "-f", str(tmp_path / "rows.jsonl"))

    blamed = sorted(line.split(b":")[0] for line in ended.stderr.splitlines() if line.startswith(b"line "))
    assert blamed == [b"line 3", b"line 5", b"line 7"]
    assert b"5 sent, 3 failed" in ended.stderr
    assert ended.returncode == 1


def test_the_version_names_client_and_server_and_the_module_can_be_run(cli, broker):
    assert f"server {build_info().version} at".encode() in cli("version").stdout
    away = cli("version", "--server", "http://127.0.0.1:9")
    assert (away.returncode, b"no answer" in away.stdout) == (0, True)
    ended = subprocess.run([sys.executable, "-m", "goqueue", "--version"], capture_output=True, check=True, timeout=60)
    assert ended.stdout.startswith(b"goqueue ")


def test_a_narrow_terminal_folds_names_and_cuts_none(cli, broker):
    name = "manners-" + "a-very-long-name-" * 8
    cli("topic", "create", name)
    shown = _at_a_terminal(broker, ["topic", "list"], columns=80)
    assert name not in shown, "it is wider than the terminal"
    assert name in "".join(line.strip() for line in shown.splitlines())


def test_a_table_that_does_not_fit_a_terminal_is_shown_as_blocks(cli, broker):
    cli("produce", "manners-dead", "--create", "-m", "x")
    (taken,) = json.loads(cli("queue", "receive", "manners-dead", "--wait", "5s", "-o", "json").stdout)
    cli("queue", "reject", taken["receipt_handle"], "--error", "the printer is on fire, and nobody has water")
    deadline = time.monotonic() + 30
    while b"nothing to show" in cli("dlq", "list", "manners-dead").stdout:
        assert time.monotonic() < deadline, "there is no dead letter"
    shown = [
        line.split(maxsplit=1)
        for line in _at_a_terminal(broker, ["dlq", "list", "manners-dead"], columns=80).splitlines()
    ]
    assert ["reason", "rejected"] in [[word.strip() for word in line] for line in shown]
    assert ["error", "the printer is on fire, and nobody has water"] in [
        [word.strip() for word in line] for line in shown
    ]
    assert b"PARTITION  OFFSET  DIED" in cli("dlq", "list", "manners-dead").stdout, "a pipe has a table"


def test_topic_names_complete_in_shells(cli, broker):
    cli("topic", "create", "manners-complete")
    completed = subprocess.run(
        [
            sys.executable,
            "-c",
            "from goqueue.cli.session import complete_topics; print(complete_topics('manners-comp'))",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"},
        check=True,
        timeout=60,
    )
    assert completed.stdout.strip() == "['manners-complete']"


def test_priorities_are_readable_in_80_columns(cli, broker):
    cli("produce", "manners-lanes", "--create", "-m", "x", "--priority", "background", "--partition", "0")
    cli("queue", "receive", "manners-lanes", "--group", "lane-readers")
    shown = _at_a_terminal(broker, ["queue", "stats", "manners-lanes", "--priority"], columns=80)
    heading, *rows = [line.split() for line in shown.splitlines() if line.strip()]
    assert heading == ["QUEUE", "GROUP", "LANE", "READY", "IN", "FLIGHT", "DELIVERED", "WAITING"]
    assert ["manners-lanes/0", "lane-readers", "background", "0", "1", "1", "-"] in rows
    assert len(rows) == 15


def test_ctrl_c_at_a_question_ends_produce_at_once(broker):
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [GOQUEUE, "produce", "manners-asked", "-m", "x"],
        stdin=writer,
        stdout=writer,
        stderr=writer,
        env={**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one system call
    )
    os.close(writer)
    shown, deadline = b"", time.monotonic() + 30
    while b"Create it?" not in shown:
        assert time.monotonic() < deadline, shown
        shown += _read(reader)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert b"Traceback" not in shown + _read(reader)
    os.close(reader)
    assert Http(broker.http).refused("GET", "/topics/manners-asked")[0] == 404


def test_ctrl_c_ends_produce_on_a_terminal_at_once(broker):
    reader, writer = pty.openpty()
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"}
    process = subprocess.Popen(
        [GOQUEUE, "produce", "manners-typed", "--create"],
        stdin=writer,
        stderr=subprocess.PIPE,
        env=environment,
        # A shell that starts the tests in the background has them, and all they start, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one system call
    )
    os.write(reader, b"typed\n")
    http, deadline = Http(broker.http), time.monotonic() + 30
    while (http.ask("GET", "/topics/manners-typed").body or {}).get("total_messages", 0) == 0:
        assert time.monotonic() < deadline, "the line was not sent"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"1 sent, 0 failed" in errors
    assert b"Traceback" not in errors


def _at_a_terminal(broker, arguments, *, columns):
    reader, writer = pty.openpty()
    settings = {"GOQUEUE_SERVER": f"http://{broker.http}", "COLUMNS": str(columns), "TERM": "dumb"}
    subprocess.run([GOQUEUE, *arguments], stdout=writer, env={**os.environ, **settings}, check=True, timeout=60)
    os.close(writer)
    shown = b""
    while chunk := _read(reader):
        shown += chunk
    os.close(reader)
    return shown.decode()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
