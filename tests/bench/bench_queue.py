"""`make bench-queue`: the queue on the log, from the machine alone to a client over HTTP.

    python -m tests.bench.bench_queue [--quick] [--only PART]

Each part is a module of its own with a `run` that returns its bars. Prints a Markdown table;
exit code 1 if a bar was not met.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from tests.bench.measure import Bar, table

# part -> what its `run` gets, and what it gets in a smoke run (None: it is too long for one)
PARTS: dict[str, tuple[dict[str, int], dict[str, int] | None]] = {
    "queue_machine": ({}, {"messages": 20_000}),
    "queue_lanes": ({"messages": 10_000_000}, {"messages": 100_000}),
    "queue_delay": ({}, None),
    "queue_http": ({}, {"count": 10_000, "rounds": 1}),
}


def bars_of(part: str, *, quick: bool) -> list[Bar]:
    """The bars of one part."""
    whole, smoke = PARTS[part]
    sizes = smoke if quick else whole
    if sizes is None:
        return []
    bars: list[Bar] = import_module(f"tests.bench.{part}").run(**sizes)
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    chosen = parser.parse_args()
    bars = [bar for part in ([chosen.only] if chosen.only else PARTS) for bar in bars_of(part, quick=chosen.quick)]
    print(table(bars))
    return 0 if chosen.quick or all(bar.met is not False for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
