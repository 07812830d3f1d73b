"""`make bench-queue`: the queue on the log, from the machine alone to a client over HTTP.

    python -m tests.bench.bench_queue [--quick] [--only PART ...]

Each part is a module of its own with a `run` that returns its bars. Prints a Markdown table;
exit code 1 if a bar was not met.
"""

from __future__ import annotations

import sys
from importlib import import_module

from tests.bench.command import command, finish, run
from tests.bench.measure import Bar

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
    options = command(__doc__, only=PARTS).parse_args()
    return finish(run(options.only, lambda part: bars_of(part, quick=options.quick)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
