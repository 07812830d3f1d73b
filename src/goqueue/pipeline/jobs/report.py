"""The report of a job: JSON for programs, one HTML page with pictures for people.

A report is made of facts (name and value), tables and charts. It says what was done and
verified; a job that was only planned says so.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from goqueue.pipeline.jobs.charts import Chart, draw_chart
from goqueue.pipeline.paths import local_path

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#0f172a}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}
td,th{padding:.25rem .8rem;border-bottom:1px solid #e2e8f0;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}h2{margin-top:2rem}.bad{color:#b91c1c}
"""


@dataclass(slots=True)
class Report:
    """What a job did, or would do."""

    job: str
    is_dry_run: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    charts: list[Chart] = field(default_factory=list)
    # What was found wrong; empty when all is well.
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: what it has no word for is text."""
        data = {
            "job": self.job,
            "dry_run": self.is_dry_run,
            "ok": not self.problems,
            **self.facts,
            "problems": self.problems,
            "tables": self.tables,
        }
        plain: dict[str, Any] = json.loads(json.dumps(data, default=_text))
        return plain

    def draw_bars(self, title: str, name: str, value: str, rows: Sequence[Mapping[str, Any]], unit: str = "") -> None:
        """Add a chart with a bar for each row: its `name` below, its `value` as the height."""
        self.charts.append(Chart(title, [str(row[name]) for row in rows], [row[value] for row in rows], unit=unit))

    def write(self, folder: Path) -> list[Path]:
        """`report.json` and `report.html` in the folder."""
        folder = local_path(folder, "report")
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "report.json", folder / "report.html"
        data.write_text(json.dumps(self.as_dict(), indent=2), encoding="utf-8")
        page.write_text(self.html(), encoding="utf-8")
        return [data, page]

    def html(self) -> str:
        """The page."""
        title = f"goqueue {self.job}" + (" (dry run)" if self.is_dry_run else "")
        parts = [
            f"<!doctype html><meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>",
            f"<h1>{escape(title)}</h1>",
            _table([{"": name.replace("_", " "), "value": value} for name, value in self.facts.items()]),
        ]
        if self.problems:
            parts.append("<h2 class='bad'>Problems</h2><ul>")
            parts += [f"<li class='bad'>{escape(problem)}</li>" for problem in self.problems]
            parts.append("</ul>")
        parts += [f"<h2>{escape(chart.title)}</h2>{draw_chart(chart)}" for chart in self.charts]
        parts += [f"<h2>{escape(name)}</h2>{_table(rows)}" for name, rows in self.tables.items()]
        return "\n".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        # Spark gives times without a zone, in that of this machine.
        return value.astimezone(dt.UTC).isoformat()
    return str(value)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>nothing</p>"
    names = list(rows[0])
    head = "".join(f"<th>{escape(str(name))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in names)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(_text(value))}</td>"
    return f"<td class='n'>{value:,}</td>"
