"""Every command follows the same rules: exit codes, durations, addresses, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import COMMANDS, app, load_command
from goqueue.client import RetryPolicy

NOBODY = "http://127.0.0.1:9"
# What a command needs beside dummies for its required arguments.
EXTRA: dict[str, list[str]] = {
    "group reset-offsets": ["--topic", "x", "--to-earliest"],
    "topic alter": ["--config", "a=b"],
    "delayed reschedule": ["--delay", "5s"],
    "produce": ["--message", "v"],
    "schema show": ["--id", "1"],
    "explain": ["x/0@1"],
}
VALUES = {
    "file": "{tmp}/schema.avsc",
    "old": "1",
    "new": "2",
    "slot": "0/1",
    "receipts": "t:0:1:1:1.aa",
    "epoch": "1",
    "data_dir": "{tmp}",
    "partition": "0",
    "allow": "topic:read",
}
# Commands that do something else before they talk to a broker, and have tests of their own.
ELSEWHERE = {"worker", "version", "bench peers", "backup create", "backup restore", "jobs backup"}
DURATIONS = {"--wait", "--visibility", "--delay", "--by", "--grace", "--timeout"}


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from leaves(command.get_command(None, name), (*path, name))
    else:
        yield " ".join(path), command


LEAVES = {
    path: leaf for name, (place, _) in COMMANDS.items() for path, leaf in leaves(load_command(name, place), (name,))
}


def has(path: str, option: str) -> bool:
    return any(option in param.opts for param in LEAVES[path].params)


WITH_SERVER = sorted(path for path in LEAVES if has(path, "--server") and not path.startswith("config "))
WITH_DURATION = sorted(
    (path, option)
    for path, leaf in LEAVES.items()
    for param in leaf.params
    for option in param.opts
    if option in DURATIONS
)


def arguments(path: str, tmp: object) -> list[str]:
    """The least that a command wants."""
    found = path.split()
    for param in LEAVES[path].params:
        if param.param_type_name == "argument" and param.required:
            found.append(VALUES.get(str(param.name), "x"))
        elif param.required:
            found += [param.opts[0], VALUES.get(str(param.name), "x")]
        elif "--force" in param.opts:
            found.append("--force")
    return [one.replace("{tmp}", str(tmp)) for one in [*found, *EXTRA.get(path, [])]]


def run(*given: str, **environment: str) -> Any:
    return CliRunner(env={"GOQUEUE_SERVER": NOBODY, **environment}).invoke(app, list(given))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch, tmp_path):
    monkeypatch.setattr(RetryPolicy, "delay_ms", lambda *_: 0.0)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "schema.avsc").write_text('"string"')


def exit_code(result: Any) -> int:
    error = result.exception
    assert error is None or isinstance(error, SystemExit), repr(error)
    assert "Traceback" not in result.output
    return int(result.exit_code)


# The benchmark of peers hands its options on.
@pytest.mark.parametrize("path", sorted(LEAVES.keys() - {"bench peers"}))
def test_an_unknown_option_is_exit_code_2(path):
    result = run(*path.split(), "--no-such-option")

    assert exit_code(result) == 2
    assert "no such option" in result.output.lower()


@pytest.mark.parametrize("path", [one for one in WITH_SERVER if one not in ELSEWHERE])
def test_a_broker_that_does_not_answer_is_exit_code_3(path, tmp_path):
    result = run(*arguments(path, tmp_path))

    assert exit_code(result) == 3, result.output
    assert "127.0.0.1:9" in result.output


@pytest.mark.parametrize("path", [one for one in WITH_SERVER if one not in ELSEWHERE])
def test_a_bad_address_and_an_unknown_context_are_exit_code_2(path, tmp_path):
    for option, value in (("--server", "ftp://nowhere"), ("--context", "no-such-context")):
        if has(path, option):
            result = run(*arguments(path, tmp_path), option, value)
            assert exit_code(result) == 2, result.output
            assert value in result.output


@pytest.mark.parametrize(("path", "option"), WITH_DURATION)
@pytest.mark.parametrize("text", ["5", "soon", "-3s", "1 fortnight"])
def test_a_duration_without_a_unit_is_exit_code_2(path, option, text, tmp_path):
    result = run(*arguments(path, tmp_path), f"{option}={text}")

    assert exit_code(result) == 2, result.output
    assert f"{option} {text!r} is not a duration" in result.output


def test_there_are_durations_to_check():
    assert {"queue receive", "queue nack", "queue extend", "produce", "delayed reschedule", "worker"} <= {
        path for path, _ in WITH_DURATION
    }
