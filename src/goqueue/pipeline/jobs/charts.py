"""Charts as SVG: bars for what can be counted, lines for what changes with time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 260, 70, 46, 14
_COLOUR = "#2563eb"
_LABELS_MAX = 12


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: labels along the bottom, a value for each."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]
    kind: Literal["bars", "line"] = "bars"
    unit: str = ""


def draw_chart(chart: Chart) -> str:
    """The chart as SVG."""
    if not chart.values:
        return "<p>nothing to draw</p>"
    top = max(*chart.values, 1e-9)
    step = (_WIDTH - _LEFT - 10) / len(chart.values)
    points = [(_LEFT + step * (at + 0.5), _y(value, top)) for at, value in enumerate(chart.values)]
    shapes = _bars(points, step) if chart.kind == "bars" else _line(points)
    head = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" font-size="12" '
        f'font-family="system-ui,sans-serif" role="img" aria-label="{escape(chart.title)}">'
        f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - 10}" fill="none" stroke="#94a3b8"/>'
    )
    return "\n".join([head, *_scale(top, chart.unit), *shapes, *_names(chart.labels, points), "</svg>"])


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / top


def _bars(points: Sequence[tuple[float, float]], step: float) -> list[str]:
    width = max(step * 0.7, 1)
    floor = _HEIGHT - _BOTTOM
    return [
        f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{floor - y:.1f}" fill="{_COLOUR}"/>'
        for x, y in points
    ]


def _line(points: Sequence[tuple[float, float]]) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return [f'<polyline points="{path}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>']


def _scale(top: float, unit: str) -> list[str]:
    marks = [top * part for part in (0, 0.5, 1)]
    return [_text(_LEFT - 8, _y(value, top) + 4, "end", f"{value:,.4g} {unit}") for value in marks]


def _names(labels: Sequence[str], points: Sequence[tuple[float, float]]) -> list[str]:
    every = max(-(-len(labels) // _LABELS_MAX), 1)
    below = _HEIGHT - _BOTTOM + 18
    return [_text(points[at][0], below, "middle", labels[at][:14]) for at in range(0, len(labels), every)]


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#475569">{escape(text)}</text>'
