"""goqueue server: read the settings, start the broker, stay until told to stop."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any

import typer

from goqueue.config import documented_settings
from goqueue.errors import ConfigError

_SETTINGS = {f"{section}.{name}": row for section, name, *row in documented_settings()}


def _option(flag: str, path: str, metavar: str) -> Any:
    default, variable, doc = _SETTINGS[path]
    help_text = f"{doc} [env: {variable}]" + (f" [default: {default}]" if default != "" else "")
    return typer.Option(flag, help=help_text, metavar=metavar, show_default=False)


def server(
    data_dir: Annotated[str | None, _option("--data-dir", "broker.data_dir", "DIR")] = None,
    config: Annotated[str | None, typer.Option("--config", help="Settings file: .toml, .yaml.", metavar="FILE")] = None,
    node_id: Annotated[str | None, _option("--node-id", "broker.node_id", "NUMBER")] = None,
    kafka: Annotated[str | None, _option("--kafka", "listeners.kafka", "HOST:PORT")] = None,
    advertised_kafka: Annotated[
        str | None, _option("--advertised-kafka", "listeners.advertised_kafka", "HOST:PORT")
    ] = None,
    http: Annotated[str | None, _option("--http", "listeners.http", "HOST:PORT")] = None,
    grpc: Annotated[str | None, _option("--grpc", "listeners.grpc", "HOST:PORT")] = None,
    ready_file: Annotated[
        str | None,
        typer.Option("--ready-file", help="Written with pid and addresses when the broker serves.", metavar="PATH"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting, as in log.segment_bytes=1048576.", metavar="SECTION.NAME=VALUE"),
    ] = None,
) -> None:
    """Start a broker. By default it listens on the loopback interface only."""
    # All that a start makes stays, so the collector would look through it for nothing. It is
    # switched on again when the broker serves.
    gc.disable()
    # Children of a broker and of its supervisor are other programs. What gRPC does when a process forks can end them
    # before they begin; the library reads this when it is imported.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from goqueue.node.config.load_config import load

    named = {
        "broker.data_dir": data_dir,
        "broker.node_id": node_id,
        "listeners.kafka": kafka,
        "listeners.advertised_kafka": advertised_kafka,
        "listeners.http": http,
        "listeners.grpc": grpc,
    }
    pairs = [text.partition("=") for text in settings or []]
    flags = {path.strip(): value for path, equals, value in pairs if equals}
    flags |= {path: text for path, text in named.items() if text is not None}
    problems = [f"--set {text}: write it as section.name=value" for text, equals, _ in pairs if not equals]
    try:
        loaded = load(config, os.environ, flags)
    except ConfigError as error:
        raise ConfigError(problems + error.problems) from None
    if problems:
        raise ConfigError(problems)
    if loaded.metadata.mode == "managed":
        from goqueue.node.cluster.supervisor import is_supervised, run_supervised

        if not is_supervised():
            # This process starts the broker, and does not load it.
            gc.enable()
            raise typer.Exit(run_supervised(loaded, [sys.executable, "-m", "goqueue", *sys.argv[1:]]))
    from goqueue.node.process.lifecycle import run

    run(loaded, ready_file=ready_file)
