"""What the commands of all benchmarks have in common: what to run, how much of it, the table and the exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from tests.bench.measure import Bar, table

# A frozen dataclass that says how much is done.
Scale = TypeVar("Scale")


def command(
    description: str | None, *, only: Collection[str] = (), directory: bool = False, size: bool = False
) -> argparse.ArgumentParser:
    """The options: `--quick`, `--only` where there are benches to choose from, `--directory` of the data, `--size`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run: a little of everything, and no bar counts")
    if only:
        parser.add_argument("--only", nargs="+", choices=only, default=list(only), help="these alone")
    if directory:
        parser.add_argument("--directory", help="where the data goes; without it, a temporary directory")
    if size:
        parser.add_argument("--size", type=float, default=1.0, help="a share of the rows, as in 0.1, in as many rounds")
    return parser


def smaller(scale: Scale, share: float) -> Scale:
    """The same with a share of its rows: of all fields whose name ends so."""
    fewer = {}
    for field in fields(scale):
        value = getattr(scale, field.name)
        if field.name.endswith("rows"):
            is_table = isinstance(value, Mapping)
            fewer[field.name] = {k: int(v * share) for k, v in value.items()} if is_table else int(value * share)
    return replace(scale, **fewer)


def run(names: Iterable[str], bench: Callable[[str], Sequence[Bar]]) -> list[Bar]:
    """The bars of each bench, told on the way, since some take minutes."""
    bars: list[Bar] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found = bench(name)
        print("\n".join(f"  {bar.what}: {bar.figure} {bar.bar}" for bar in found), file=sys.stderr, flush=True)
        bars += found
    return bars


def finish(bars: Sequence[Bar], *, quick: bool) -> int:
    """Print the table; the exit code is 1 if a bar was not met in a whole run."""
    print("\n" + table(bars))
    return 1 if not quick and any(bar.met is False for bar in bars) else 0
