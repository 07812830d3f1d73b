"""How results are shown: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import yaml
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


class Format(StrEnum):
    """What `-o` takes."""

    table = "table"
    json = "json"
    yaml = "yaml"


# Wide enough for any table: where nobody looks at a terminal, columns must not be squeezed into one.
_PIPE_COLUMNS = 1000


def console() -> Console:
    """Standard output; colour only where it is a terminal.

    What is shown is other people's text: a `[word]` in it is no markup.
    """
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def show(data: Any, output: Format, columns: Sequence[str] | None = None, *, title: str | None = None) -> None:
    """Print rows (a list of mappings), or one thing (a mapping)."""
    if output is Format.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
    elif output is Format.yaml:
        # By way of JSON, because the dumper takes plain mappings only.
        print(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False, allow_unicode=True), end="")
    elif isinstance(data, list):
        _rows(data, columns, title)
    else:
        _pairs(data)


def tell(text: str, data: Any, output: Format) -> None:
    """What was done: a sentence for people, the facts for programs."""
    if output is Format.table:
        print(text)
    else:
        show(data, output)


def _rows(rows: list[dict[str, Any]], columns: Sequence[str] | None, title: str | None) -> None:
    names = list(columns or (rows[0].keys() if rows else ()))
    if not rows:
        print("nothing to show")
        return
    table = Table(*[name.replace("_", " ").upper() for name in names], title=title, box=None, pad_edge=False)
    for column, name in zip(table.columns, names, strict=True):
        # A name that is cut off cannot be used.
        column.overflow = "fold"
        if all(type(row.get(name)) in {int, float} for row in rows):
            column.justify = "right"
    for row in rows:
        table.add_row(*[_cell(row.get(name)) for name in names])
    screen = console()
    if _width(screen, table) <= screen.width:
        screen.print(table)
        return
    # Too wide for this terminal. Squeezed columns would break every word, so each row is a block of its own.
    for number, row in enumerate(rows):
        if number or title:
            print()
        _pairs({name: row.get(name) for name in names})


def _width(screen: Console, table: Table) -> int:
    return Measurement.get(screen, screen.options.update(max_width=_PIPE_COLUMNS), table).maximum


def _pairs(data: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in data.items():
        table.add_row(name.replace("_", " "), _cell(value))
    console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_cell(one) for one in value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_cell(one)}" for name, one in value.items()) or "-"
    return str(value)
