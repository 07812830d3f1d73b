"""Pages of the reference that are made from the code: command line, HTTP, metrics, errors."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MADE = "This page is made from the code when the site is built.\n"


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    from goqueue.testing.embedded_broker import EmbeddedBroker

    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder), manual_clock=False) as broker:
        api, series = (_fetched(f"{broker.http_url}{path}") for path in ("/openapi.json", "/metrics"))
    return {
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        "http.md": http_page(json.loads(api)),
        "metrics.md": metrics_page(series),
    }


def _fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310 - a broker of our own
        text: str = reply.read().decode()
    return text


def cli_page() -> str:
    """Every command with its arguments and options."""
    from goqueue.cli.main import COMMANDS, load_command

    parts = [f"# Command line\n\n{_MADE}"]
    for name, (place, _summary) in COMMANDS.items():
        for title, command in commands_of(load_command(name, place), name):
            parts.append(f"## goqueue {title}\n\n{_line(command.help)}\n")
            rows = [_parameter(one) for one in command.params if one.name != "help"]
            if rows:
                parts.append("| | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def commands_of(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The command itself, or those below it, with all of its name."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for part, one in below.items():
        yield from commands_of(one, f"{name} {part}")


def _parameter(one: Any) -> str:
    is_argument = one.param_type_name == "argument"
    shown = one.name.upper() if is_argument else ", ".join(one.opts)
    default = (
        "required" if one.required else "" if one.default in (None, (), False) or callable(one.default) else one.default
    )
    return f"| `{shown}` | {_cell(default)} | {_cell(getattr(one, 'help', None))} |"


def http_page(api: dict[str, Any]) -> str:
    """Every route, with what it takes and what it answers."""
    parts = [f"# HTTP\n\n{_MADE}\nA running broker shows the same at `/docs`, for programs at `/openapi.json`.\n"]
    parts.append("| route | does | parameters | body | answers |\n|---|---|---|---|---|")
    for path, methods in sorted(api["paths"].items()):
        for method, about in methods.items():
            names = ", ".join(f"`{one['name']}`" for one in about.get("parameters", []))
            body = _type_of(about.get("requestBody", {}))
            answers = ", ".join(f"{status} {_type_of(reply)}".strip() for status, reply in about["responses"].items())
            summary = _cell(about.get("summary"))
            parts.append(f"| `{method.upper()} {path}` | {summary} | {names} | {_cell(body)} | {_cell(answers)} |")
    parts.append("\n## Types\n")
    for name, schema in sorted(api["components"]["schemas"].items()):
        parts.append(f"### {name}\n\n{_line(schema.get('description'))}\n")
        fields = schema.get("properties", {})
        needed = set(schema.get("required", []))
        if fields:
            parts.append("| field | type | |\n|---|---|---|")
            parts += [
                f"| `{one}` | {_cell(_kind(kind))} | {'required' if one in needed else ''} |"
                for one, kind in fields.items()
            ]
            parts.append("")
    return "\n".join(parts) + "\n"


def _type_of(content: dict[str, Any]) -> str:
    return ", ".join(_kind(one["schema"]) for one in content.get("content", {}).values() if "schema" in one)


def _kind(schema: Any) -> str:
    # `true` is a schema that takes anything.
    if isinstance(schema, bool):
        return "any"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_kind(one) for one in schema[word])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    return str(schema.get("type", "any"))


def metrics_page(exposition: str) -> str:
    """Every series of `/metrics`, as a fresh broker names them."""
    helps, kinds = {}, {}
    for line in exposition.splitlines():
        word, _, rest = line.removeprefix("# ").partition(" ")
        name, _, text = rest.partition(" ")
        if line.startswith("#") and word == "HELP":
            helps[name] = text
        if line.startswith("#") and word == "TYPE":
            kinds[name] = text
    rows = [f"| `{name}` | {kinds.get(name, '')} | {_cell(helps[name])} |" for name in sorted(helps)]
    return f"# Metrics\n\n{_MADE}\n| series | kind | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def errors_page() -> str:
    """Every error with its code on every wire."""
    from goqueue.errors.wire import _TABLE

    rows = []
    for error, wire in sorted(_TABLE.items(), key=lambda row: (row[1].code, row[0].__name__)):
        meaning, retry = _cell((error.__doc__ or "").partition("\n")[0]), "yes" if wire.retriable else "no"
        rows.append(f"| `{wire.code}` | `{error.__name__}` | {meaning} | {wire.http} | {wire.kafka} | {retry} |\n")
    return (
        f"# Errors\n\n{_MADE}\nAn error of a class that is not listed has the codes of its nearest ancestor.\n\n"
        "| code | class | meaning | HTTP | Kafka | retry |\n|---|---|---|---|---|---|\n" + "".join(rows)
    )


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: Any) -> str:
    return _line(str(text if text is not None else "")).replace("|", "\\|").replace("<", "&lt;")
