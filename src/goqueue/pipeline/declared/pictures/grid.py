"""Where the boxes of a drawing go: columns and rows, with free cells for arrows that pass a column.

An arrow to a box two columns on would run behind a box in between. It gets a cell of its own in every column that it
passes; arrows from one box share theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Cell = tuple[int, int]


class Grid(NamedTuple):
    """The column and row of every box, and the cells of every arrow from its first box to its last."""

    cells: Mapping[str, Cell]
    ways: Sequence[Sequence[Cell]]
    columns: int
    rows: int


def place_boxes(reads: Mapping[str, Sequence[str]], columns: Mapping[str, int]) -> Grid:
    """Rows for boxes whose columns are known; every box is right of all that it reads."""
    count = max(columns.values()) + 1
    held: list[list[str]] = [[name for name in reads if columns[name] == column] for column in range(count)]
    ways: list[list[str]] = []
    before: dict[str, list[str]] = {name: [] for name in reads}
    for name, sources in reads.items():
        for source in sources:
            way = [source]
            for column in range(columns[source] + 1, columns[name]):
                free = f"{source} passes {column}"
                if free not in before:
                    before[free] = [way[-1]]
                    held[column].append(free)
                way.append(free)
            before[name].append(way[-1])
            ways.append([*way, name])
    rows: dict[str, int] = {}
    for names in held:
        # Beside what it reads, as far as that goes: fewer arrows cross.
        names.sort(key=lambda name: sum(rows[one] for one in before[name]) / len(before[name]) if before[name] else 0)
        rows.update({name: row for row, name in enumerate(names)})
    cells = {name: (column, rows[name]) for column, names in enumerate(held) for name in names}
    return Grid(cells, [[cells[name] for name in way] for way in ways], count, max(map(len, held)))
