"""A pipeline drawn: sources on the left, sinks on the right, an arrow for everything that flows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from msgspec import UNSET

from goqueue.pipeline.declared.check import step_reads
from goqueue.pipeline.declared.spec import Parse, Pipeline, Sink, Source, Step

_BOX_WIDTH, _BOX_HEIGHT = 190, 54
_COLUMN_WIDTH, _ROW_HEIGHT = 250, 84
_MARGIN = 24
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


def draw(pipeline: Pipeline) -> str:
    """The pipeline as SVG."""
    boxes = _boxes(pipeline)
    columns = _columns(boxes)
    places = {
        name: (_MARGIN + column * _COLUMN_WIDTH, _MARGIN + 28 + row * _ROW_HEIGHT)
        for column, names in enumerate(columns)
        for row, name in enumerate(names)
    }
    width = 2 * _MARGIN + (len(columns) - 1) * _COLUMN_WIDTH + _BOX_WIDTH
    height = 2 * _MARGIN + 28 + (max(map(len, columns)) - 1) * _ROW_HEIGHT + _BOX_HEIGHT
    arrows = [_arrow(places[read], places[box.name]) for box in boxes.values() for read in box.reads]
    parts = [_box(box, *places[name]) for name, box in boxes.items()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="13">'
    )
    title = f'<text x="{_MARGIN}" y="{_MARGIN + 8}" font-size="16" font-weight="600">{escape(pipeline.name)}</text>'
    return "\n".join([head, _ARROW_TIP, _PAPER, title, *arrows, *parts, "</svg>"])


def _boxes(pipeline: Pipeline) -> dict[str, _Box]:
    boxes = {name: _Box(name, _source_label(source), "source", ()) for name, source in pipeline.sources.items()}
    for name, step in pipeline.steps.items():
        boxes[name] = _Box(name, _step_label(step), "step", tuple(dict.fromkeys(step_reads(step))))
    for name, sink in pipeline.sinks.items():
        boxes[f"sink {name}"] = _Box(f"sink {name}", _sink_label(name, sink), "sink", tuple(sink.reads()))
    parsed = [name for name, step in pipeline.steps.items() if isinstance(step, Parse)]
    if pipeline.dead_letters is not UNSET and parsed:
        boxes["dead letters"] = _Box("dead letters", f"topic {pipeline.dead_letters}", "dead", tuple(parsed))
    return boxes


def _columns(boxes: dict[str, _Box]) -> list[list[str]]:
    """Every box one column to the right of the last it reads; the ends together on the right."""
    depth: dict[str, int] = {}
    for name, box in boxes.items():
        depth[name] = max((depth[read] + 1 for read in box.reads), default=0)
    last = max(depth.values())
    for name, box in boxes.items():
        if box.kind in ("sink", "dead"):
            depth[name] = last
    return [[name for name in boxes if depth[name] == column] for column in range(last + 1)]


def _box(box: _Box, x: int, y: int) -> str:
    title = box.name.removeprefix("sink ")
    return (
        f'<g><rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="8" fill="{_COLOURS[box.kind]}" '
        f'stroke="#94a3b8"/><text x="{x + 12}" y="{y + 22}" font-weight="600">{escape(_short(title))}</text>'
        f'<text x="{x + 12}" y="{y + 41}" fill="#475569">{escape(_short(box.label))}</text>'
        f"<title>{escape(title)}: {escape(box.label)}</title></g>"
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _BOX_WIDTH, start[1] + _BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + _BOX_HEIGHT // 2
    bend = (x2 - x1) // 2
    return (
        f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2 - 2} {y2}" fill="none" stroke="#64748b" '
        'stroke-width="1.5" marker-end="url(#tip)"/>'
    )


def _source_label(source: Source) -> str:
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


def _short(text: str) -> str:
    return text if len(text) <= 26 else text[:25] + "…"
