"""The program `goqueue`: its commands, each imported only when it is called.

Imports decide how quickly a command line answers, so the list of commands is a table here
and `--help` is written from the table alone.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# name -> (where it is: a function, or an `app` with subcommands; one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "server": ("goqueue.cli.running.server:server", "Start a broker."),
    "topic": ("goqueue.cli.admin.topic:app", "Create, describe, change and delete topics."),
    "produce": ("goqueue.cli.messages.produce:produce", "Publish messages."),
    "consume": ("goqueue.cli.messages.consume:consume", "Read messages."),
    "group": ("goqueue.cli.admin.group:app", "Describe consumer groups and their lag, reset offsets, evict members."),
    "queue": ("goqueue.cli.messages.queue:app", "Receive messages with receipts, and settle them."),
    "dlq": ("goqueue.cli.messages.dlq:app", "List, redrive and purge dead letters."),
    "delayed": ("goqueue.cli.messages.delayed:app", "List, reschedule and cancel delayed messages."),
    "explain": ("goqueue.cli.messages.explain:explain", "Show what happened to a message."),
    "trace": ("goqueue.cli.messages.trace:app", "List recent traces, show one, search them."),
    "worker": ("goqueue.cli.running.worker:worker", "Run the tasks of an application."),
    "schedule": ("goqueue.cli.messages.schedule:app", "Create, list and delete recurring messages."),
    "schema": ("goqueue.cli.schemas.schema:app", "Register, compare, infer and delete schemas."),
    "transactions": ("goqueue.cli.admin.transactions:app", "List transactions, and abort those that hang."),
    "prepared": ("goqueue.cli.admin.prepared:app", "List prepared transactions, and abort an epoch."),
    "pipeline": ("goqueue.cli.spark.pipeline:app", "Declare, check, test and run pipelines on Spark."),
    "backup": ("goqueue.cli.files.backup:app", "Create, verify, list and restore backups, without Spark."),
    "jobs": ("goqueue.cli.spark.jobs:app", "Bulk jobs on Spark: backup, restore and more."),
    "cluster": ("goqueue.cli.cluster.commands:app", "Create a cluster, run one on this machine, and administer it."),
    "health": ("goqueue.cli.cluster.describe:health", "Check whether a broker can serve."),
    "security": ("goqueue.cli.security.commands:app", "Certificates, users, API keys, roles and access rules."),
    "config": ("goqueue.cli.admin.config:app", "Stored contexts: brokers by name."),
    "log": ("goqueue.cli.files.log:app", "Inspect, verify and repair the files of a stopped broker."),
    "demo": ("goqueue.cli.running.demo:demo", "A one-minute tour with a temporary broker."),
    "bench": ("goqueue.cli.running.bench:app", "Benchmark a broker, or compare it with others."),
    "version": ("goqueue.cli.version:version", "Show the versions of this program and of the broker."),
}

_COMPLETION = {"install_completion", "show_completion"}


class LazyGroup(TyperGroup):
    """Loads a command when it is called; for the list of commands the table suffices."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command itself, or only its description while help is being written."""
        if cmd_name not in COMMANDS:
            return None
        place, summary = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=summary) if self._listing else load_command(cmd_name, place)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without importing the commands."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def load_command(name: str, place: str) -> Any:
    """Import a command from `module:attribute`."""
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        # As markup, "[env: ...]" in a help text would be taken for a tag, and not be shown.
        found.rich_markup_mode = None
        command: Any = typer.main.get_command(found)
    else:
        single = typer.Typer(rich_markup_mode=None)
        single.command()(found)
        command = typer.main.get_command(single)
    command.name = name
    # Completion is installed once, for the whole program.
    command.params = [one for one in command.params if one.name not in _COMPLETION]
    return command


# Plain help: importing rich for it would double the time until it appears.
app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from goqueue.cli.version import client_line

        typer.echo(client_line())
        raise typer.Exit


@app.callback()
def goqueue(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """GoQueue: one log, read as a Kafka stream or as a queue."""


# Packages of extras as they are imported (protobuf is `google`), each with the extra that brings it.
EXTRAS = dict.fromkeys(("pyspark", "pyarrow", "numpy", "pandas", "sqlglot", "google"), "spark")


def main() -> None:
    """Run the command line; what we refuse is one message and exit code 2."""
    from goqueue.errors import ConfigError, GoQueueError

    for stream in (sys.stdout, sys.stderr):
        # What is shown is other people's bytes: those that are not text are escaped, and never a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except GoQueueError as error:
        fail(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        fail(ConfigError([f"this command needs the package {package}: pip install 'goqueue[{EXTRAS[package]}]'"]))
    except OSError as error:
        if not isinstance(error.filename, str | bytes | os.PathLike):
            raise
        # A file that the user named, or one below a folder that they named: missing, not theirs, or on a full disk.
        fail(ConfigError([f"{os.fsdecode(error.filename)}: {error.strerror}"]))


def fail(error: Exception) -> None:
    """Say what is wrong, all of it, and end with exit code 2."""
    problems: list[str] = getattr(error, "problems", [str(error)])
    hint = getattr(error, "hint", None)
    lines = [f"goqueue: {problems[0]}"] if len(problems) == 1 else [f"goqueue: {len(problems)} problems"]
    lines += [f"  - {problem}" for problem in problems] if len(problems) > 1 else []
    lines += [f"  {hint}"] if hint else []
    print("\n".join(lines), file=sys.stderr)
    raise SystemExit(2)
