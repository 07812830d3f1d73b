"""Charts as SVG: bars for what can be counted, lines for what changes with time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import cos, radians, sin
from typing import Literal

_WIDTH, _PLOT_HEIGHT, _TOP, _RIGHT, _LEFT_MIN = 760, 200, 14, 14, 50
_COLOUR = "#2563eb"
_LABELS_MAX, _LABEL_MAX = 16, 30
# Of a wide font at 12 pixels: room that is left over does no harm, a label that is cut does.
_CHARACTER = 7.6
# Labels that do not fit beside each other are turned by this much.
_TURN = 35


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: labels along the bottom, a value for each."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]
    kind: Literal["bars", "line"] = "bars"
    unit: str = ""


def draw_chart(chart: Chart) -> str:
    """The chart as SVG. Its margins are as wide as its labels need."""
    if not chart.values:
        return "<p>nothing to draw</p>"
    top = max(*chart.values, 1e-9)
    every = max(-(-len(chart.labels) // _LABELS_MAX), 1)
    shown = {at: _shortened(chart.labels[at]) for at in range(0, len(chart.labels), every)}
    longest = max(map(len, shown.values())) * _CHARACTER
    marks = {value: f"{_number(value)} {chart.unit}".strip() for value in (0, top / 2, top)}
    left = max(_LEFT_MIN, max(map(len, marks.values())) * _CHARACTER + 14)
    is_turned = longest + 8 > (_WIDTH - left - _RIGHT) / len(shown)
    if is_turned:
        # A turned label reaches to the left of its bar.
        left = max(left, longest * cos(radians(_TURN)) + 8)
    below = longest * sin(radians(_TURN)) + 24 if is_turned else 30
    step = (_WIDTH - left - _RIGHT) / len(chart.values)
    points = [(left + step * (at + 0.5), _y(value, top)) for at, value in enumerate(chart.values)]
    height = _TOP + _PLOT_HEIGHT + round(below)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-size="12" font-family="system-ui,sans-serif" role="img" aria-label="{escape(chart.title)}">'
        f'<path d="M{left:.1f} {_TOP}V{_FLOOR}H{_WIDTH - _RIGHT}" fill="none" stroke="#94a3b8"/>'
    )
    scale = [_text(left - 8, _y(value, top) + 4, "end", text) for value, text in marks.items()]
    shapes = _bars(points, step) if chart.kind == "bars" else _line(points)
    names = [_name(points[at][0], text, chart.labels[at], is_turned=is_turned) for at, text in shown.items()]
    return "\n".join([head, *scale, *shapes, *names, "</svg>"])


_FLOOR = _TOP + _PLOT_HEIGHT


def _y(value: float, top: float) -> float:
    return _FLOOR - _PLOT_HEIGHT * value / top


def _bars(points: Sequence[tuple[float, float]], step: float) -> list[str]:
    width = max(step * 0.7, 1)
    return [
        f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_FLOOR - y:.1f}" fill="{_COLOUR}"/>'
        for x, y in points
    ]


def _line(points: Sequence[tuple[float, float]]) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_COLOUR}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{_COLOUR}" stroke-width="2"/>', *dots]


def _number(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g} {letter}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _shortened(label: str) -> str:
    return label if len(label) <= _LABEL_MAX else label[: _LABEL_MAX - 1] + "…"


def _name(x: float, text: str, whole: str, *, is_turned: bool) -> str:
    if not is_turned:
        return _text(x, _FLOOR + 18, "middle", text)
    turn = f' transform="rotate(-{_TURN} {x + 4:.1f} {_FLOOR + 14})"'
    return _text(x + 4, _FLOOR + 14, "end", text, turn, f"<title>{escape(whole)}</title>" if whole != text else "")


def _text(x: float, y: float, anchor: str, text: str, turn: str = "", title: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#475569"'
    return f"<text {place}{turn}>{escape(text)}{title}</text>"
