"""What the commands of all benchmarks have in common: what to run, how much of it, the table and the exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Sequence

from tests.bench.measure import Bar, table


def command(description: str | None, *, only: Collection[str] = (), directory: bool = False) -> argparse.ArgumentParser:
    """The options: `--quick`, `--only` where there are benches to choose from, `--directory` where data goes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run: a little of everything, and no bar counts")
    if only:
        parser.add_argument("--only", nargs="+", choices=only, default=list(only), help="these alone")
    if directory:
        parser.add_argument("--directory", help="where the data goes; without it, a temporary directory")
    return parser


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
