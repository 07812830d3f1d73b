"""Puts a run's findings where they are found again: after every workload, whole files only."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.bench.peers import plots, report
from tests.bench.peers.bars import bars
from tests.bench.peers.findings import Finding

DOCS = Path(__file__).parents[3] / "docs"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
DATA, REPORT, BEFORE = "peers.json", "peers.md", "peers-before.json"


def read(out: Path) -> Finding | None:
    """The run that lies there, finished or not."""
    path = out / DATA
    return Finding.from_json(path.read_text()) if path.exists() else None


def set_aside(out: Path) -> None:
    """A new run begins: what lies there is kept, once."""
    if (out / DATA).exists():
        (out / DATA).replace(out / BEFORE)


def write(found: Finding, out: Path) -> None:
    """What there is so far. The figures first: the rest can be made from them."""
    out.mkdir(parents=True, exist_ok=True)
    _replace(out / DATA, found.to_json([asdict(bar) for bar in bars(found)]))
    with tempfile.TemporaryDirectory(dir=out) as drawing:
        names = plots.draw(found, Path(drawing))
        for name in names:
            (Path(drawing) / name).replace(out / name)
    _replace(out / REPORT, report.markdown(found, names))


def publish(found: Finding, docs: Path = DOCS) -> None:
    """The report and its plots, in the page on benchmarks."""
    images = docs / "images"
    images.mkdir(exist_ok=True)
    names = plots.draw(found, images)
    page = docs / "benchmarks.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    text = report.markdown(found, [f"images/{name}" for name in names])
    _replace(page, f"{before.rstrip()}\n\n{BEGIN}\n{text}{END}\n\n{after.lstrip()}")


def _replace(path: Path, text: str) -> None:
    """Whoever reads sees the old file or the new one."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
