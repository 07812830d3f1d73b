"""A pipeline drawn: sources on the left, sinks on the right, an arrow for everything that flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

from msgspec import UNSET

from goqueue.pipeline.declared.checks.streams import step_reads
from goqueue.pipeline.declared.form.sinks import Sink
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.steps import Step
from goqueue.pipeline.declared.pictures.grid import place_boxes

_BOX_WIDTH_MIN, _BOX_WIDTH_MAX, _BOX_HEIGHT = 150, 240, 54
_GAP, _ROW_HEIGHT = 70, 84
_MARGIN, _TITLE = 24, 28
# Of a wide font: a text that is measured too long has room, one that is measured too short is cut.
_CHARACTER = 8.2
_COLOURS = {"source": "#dbeafe", "step": "#f1f5f9", "sink": "#dcfce7", "dead": "#fee2e2"}
_PAPER = '<rect width="100%" height="100%" fill="white"/>'
_ARROW_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#64748b"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class _Box:
    """One source, step or sink."""

    name: str
    label: str
    kind: str
    reads: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name as it stands in the file."""
        return self.name.removeprefix("sink ")


def draw(pipeline: Pipeline, rates: Mapping[str, str] = MappingProxyType({})) -> str:
    """The pipeline as SVG; `rates` are written on the edges of sources, and of sinks as `sink NAME`."""
    boxes = _boxes(pipeline)
    grid = place_boxes({name: box.reads for name, box in boxes.items()}, _columns(boxes))
    box_width = _box_width(boxes)
    width = 2 * _MARGIN + grid.columns * box_width + (grid.columns - 1) * _GAP
    height = 2 * _MARGIN + _TITLE + (grid.rows - 1) * _ROW_HEIGHT + _BOX_HEIGHT

    def at(cell: tuple[int, int]) -> tuple[int, int]:
        return _MARGIN + cell[0] * (box_width + _GAP), _MARGIN + _TITLE + cell[1] * _ROW_HEIGHT

    arrows = [_arrow([at(cell) for cell in cells], box_width) for cells in grid.ways]
    parts = [_box(box, *at(grid.cells[name]), box_width) for name, box in boxes.items()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="13">'
    )
    title = f'<text x="{_MARGIN}" y="{_MARGIN + 8}" font-size="16" font-weight="600">{escape(pipeline.name)}</text>'
    labels = [_rate(boxes[name], text, *at(grid.cells[name]), box_width) for name, text in rates.items()]
    return "\n".join([head, _ARROW_TIP, _PAPER, title, *arrows, *parts, *labels, "</svg>"])


def _boxes(pipeline: Pipeline) -> dict[str, _Box]:
    boxes = {name: _Box(name, _source_label(source), "source", ()) for name, source in pipeline.sources.items()}
    for name, step in pipeline.steps.items():
        boxes[name] = _Box(name, _step_label(step), "step", tuple(dict.fromkeys(step_reads(step))))
    for name, sink in pipeline.sinks.items():
        boxes[f"sink {name}"] = _Box(f"sink {name}", _sink_label(name, sink), "sink", tuple(sink.reads()))
    parsed = pipeline.dead_letter_origins()
    if pipeline.dead_letters is not UNSET and parsed:
        boxes["dead letters"] = _Box("dead letters", f"topic {pipeline.dead_letters}", "dead", tuple(parsed))
    return boxes


def _columns(boxes: dict[str, _Box]) -> dict[str, int]:
    """Every box one column to the right of the last it reads; the ends together on the right."""
    depth: dict[str, int] = {}
    for name, box in boxes.items():
        depth[name] = max((depth[read] + 1 for read in box.reads), default=0)
    last = max(depth.values())
    return {name: last if boxes[name].kind in ("sink", "dead") else column for name, column in depth.items()}


def _box_width(boxes: dict[str, _Box]) -> int:
    longest = max(len(text) for box in boxes.values() for text in (box.title, box.label))
    return min(max(_BOX_WIDTH_MIN, 24 + round(longest * _CHARACTER)), _BOX_WIDTH_MAX)


def _box(box: _Box, x: int, y: int, width: int) -> str:
    def short(text: str) -> str:
        most = int((width - 24) / _CHARACTER)
        return escape(text if len(text) <= most else text[: most - 1] + "…")

    return (
        f'<g><rect x="{x}" y="{y}" width="{width}" height="{_BOX_HEIGHT}" rx="8" fill="{_COLOURS[box.kind]}" '
        f'stroke="#94a3b8"/><text x="{x + 12}" y="{y + 22}" font-weight="600">{short(box.title)}</text>'
        f'<text x="{x + 12}" y="{y + 41}" fill="#475569">{short(box.label)}</text>'
        f"<title>{escape(box.title)}: {escape(box.label)}</title></g>"
    )


def _arrow(cells: list[tuple[int, int]], width: int) -> str:
    """From box to box: straight through the free cells between them, bent only between columns."""
    middle = _BOX_HEIGHT // 2
    x, y = cells[0][0] + width, cells[0][1] + middle
    path = [f"M{x} {y}"]
    for number, (left, top) in enumerate(cells[1:], 1):
        is_end = number == len(cells) - 1
        end_x, end_y = left - 2 * is_end, top + middle
        bend = (left - x) // 2
        path.append(f"C{x + bend} {y} {left - bend} {end_y} {end_x} {end_y}")
        if not is_end:
            path.append(f"H{left + width}")
        x, y = left + width, end_y
    return f'<path d="{"".join(path)}" fill="none" stroke="#64748b" stroke-width="1.5" marker-end="url(#tip)"/>'


def _rate(box: _Box, text: str, x: int, y: int, width: int) -> str:
    """A rate on the edge of a box: where rows leave a source, and where they enter a sink."""
    at, anchor = (x + width + 6, "start") if box.kind == "source" else (x - 8, "end")
    # White around the letters: edges to other boxes may cross here.
    halo = 'paint-order="stroke" stroke="white" stroke-width="4"'
    place = f'x="{at}" y="{y + _BOX_HEIGHT // 2 - 6}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11" {halo}>{escape(text)}</text>'


def _source_label(source: Source) -> str:
    if source.table is not UNSET:
        return f"table {source.table}"
    return f"topic {source.topic}" if source.topic is not UNSET else f"{source.format} {source.files}"


def _step_label(step: Step) -> str:
    kind = type(step).__name__.lower()
    detail = next(
        (str(getattr(step, name)) for name in ("where", "size", "function", "with_", "query") if hasattr(step, name)),
        "",
    )
    return f"{kind} {' '.join(detail.split())}".strip()


def _sink_label(name: str, sink: Sink) -> str:
    kind = type(sink).__name__.removesuffix("Sink").lower()
    where = next((str(getattr(sink, field)) for field in ("topic", "path", "table") if hasattr(sink, field)), "")
    return f"{kind} {where}".strip() or name
