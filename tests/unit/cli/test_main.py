"""The program itself: its list of commands, its speed, and how it says no."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from goqueue.cli.main import COMMANDS, EXTRAS, fail, load_command
from goqueue.errors import ConfigError, StorageError

GOQUEUE = Path(sys.executable).parent / "goqueue"


class ShortOfSpace(StorageError):
    hint = "free some"

    def __str__(self) -> str:
        return "no space"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(GOQUEUE), *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_every_command() -> None:
    result = run("--help")

    assert result.returncode == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


def test_help_has_a_short_name_in_every_command() -> None:
    assert run("-h").stdout == run("--help").stdout
    assert run("consume", "-h").stdout == run("consume", "--help").stdout


@pytest.mark.parametrize("arguments", [("topic", "create"), ("queue", "receive"), ("produce",)])
def test_help_says_where_the_brokers_address_comes_from(arguments: tuple[str, ...]) -> None:
    words = " ".join(run(*arguments, "--help").stdout.split())

    assert "[env: GOQUEUE_SERVER] [default: http://127.0.0.1:8080]" in words


def test_help_imports_no_command() -> None:
    listing = "import sys; sys.argv = ['goqueue', '--help']; from goqueue.cli.main import main\ntry: main()\n"
    check = "except SystemExit: pass\nprint([m for m in sys.modules if m.startswith(('goqueue.', 'aiohttp', 'rich.'))])"
    result = subprocess.run([sys.executable, "-c", listing + check], capture_output=True, text=True, check=True)
    imported = {name for name in eval(result.stdout.splitlines()[-1]) if not name.startswith("goqueue.errors")}
    assert imported == {"goqueue.cli", "goqueue.cli.main"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_of_the_table_exists(name: str) -> None:
    place, summary = COMMANDS[name]
    assert load_command(name, place).name == name
    assert summary.endswith(".")


def test_version_is_the_packages_version() -> None:
    assert run("version").stdout.startswith(f"goqueue {version('goqueue')} (Python 3.")
    assert run("--version").stdout == run("version", "--client").stdout


@pytest.mark.parametrize("arguments", [("cluster", "init"), ("cluster", "certificates", "--host", "h")])
def test_a_path_that_cannot_be_used_is_named_without_a_traceback(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run(*arguments, str(tmp_path / "file" / "folder"))
    assert result.returncode == 2
    assert re.fullmatch(rf"goqueue: {tmp_path}/file/\S+: Not a directory\n", result.stderr)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("produce", "t", "-m", "x", "--deliver-at", "tomorrow"), "--deliver-at 'tomorrow' is not an RFC 3339 time"),
        (("delayed", "reschedule", "t", "0/1", "--deliver-at", "2026-01-01"), "--deliver-at '2026-01-01' is not"),
        (
            ("produce", "t", "-m", "x", "--delay", "1s", "--deliver-at", "2099-01-01T00:00:00Z"),
            "--delay and --deliver-at are both given",
        ),
        (("config", "set-context", "x", "--ca", "/nowhere/ca.pem"), "--ca '/nowhere/ca.pem': there is no such file"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_written(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert f"error: {said}" in result.stderr


def test_an_unknown_command_is_refused_with_exit_code_2() -> None:
    result = run("sever")
    assert result.returncode == 2
    assert "sever" in result.stderr


def test_a_setting_without_a_value_is_reported_with_all_other_problems() -> None:
    result = run("server", "--set", "log", "--http", "nowhere", "--set", "log.segment_bytes=many")
    assert result.returncode == 2
    assert result.stderr.startswith("goqueue: 3 problems\n  - --set log: write it as section.name=value\n")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError(["a: b"]), "goqueue: a: b\n"),
        (ConfigError(["a", "b"]), "goqueue: 2 problems\n  - a\n  - b\n"),
        (ShortOfSpace(), "goqueue: no space\n  free some\n"),
    ],
)
def test_a_refusal_is_one_message_and_exit_code_2(
    error: Exception, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        fail(error)
    assert caught.value.code == 2
    assert capsys.readouterr().err == text


def commands_of(command: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """Every command below `command`, with all of its name."""
    if not hasattr(command, "commands"):
        yield " ".join(names), command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands_of(below, *names, name)


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "audit", "orders", "--path", "."),
        ("jobs", "export", "orders", "--to", "lake"),
        ("pipeline", "run", "x.yaml"),
    ],
)
def test_a_command_whose_packages_are_not_installed_says_how_to_get_them(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)})); from goqueue.cli.main import main; main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )

    told = r"goqueue: this command needs the package \w+: pip install 'goqueue\[spark\]'\n"
    assert re.fullmatch(told, done.stderr), done.stderr
    assert done.returncode == 2


def test_every_package_of_the_extra_for_spark_is_known() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

    named = {re.split("[<>=\\[]", one)[0] for one in project["optional-dependencies"]["spark"]}
    wanted = {{"protobuf": "google"}.get(one, one) for one in named}

    assert {package for package, extra in EXTRAS.items() if extra == "spark"} == wanted


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_that_talks_to_a_broker_can_answer_in_json(name: str) -> None:
    # `consume` prints messages one by one (--format json); `set-context` talks to nobody; `worker` logs.
    others = {"consume", "config set-context", "worker"}
    for full_name, command in commands_of(load_command(name, COMMANDS[name][0]), name):
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--server" not in options or "-o" in options or full_name in others, full_name
