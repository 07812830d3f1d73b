"""Charts of reports: every label is inside the picture, and none lies on another."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree as ET

import pytest

from goqueue.pipeline.jobs.charts import Chart, draw_chart

SVG = "{http://www.w3.org/2000/svg}"
# Of DejaVu Sans at 12 pixels, which is wider than most.
CHARACTER = 7.3


@pytest.mark.parametrize(
    ("labels", "values", "unit"),
    [
        (["orders", "a topic with a rather long name of its own", "x"], [123_456_789_012.0, 5.0, 0.0], "bytes"),
        ([f"11-17 {hour:02d}:00" for hour in range(24)] * 5, [float(n) for n in range(120)], "messages"),
        (["only one"], [0.0], ""),
    ],
)
def test_no_label_is_cut_by_the_edge_or_lies_on_its_neighbour(
    labels: list[str], values: list[float], unit: str
) -> None:
    root = ET.fromstring(draw_chart(Chart("any", labels, values, unit=unit)))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))

    across: list[tuple[float, float]] = []
    for text in root.iter(f"{SVG}text"):
        x, size = float(text.get("x", 0)), len(text.text or "") * CHARACTER
        if "transform" in text.attrib:
            # Turned by 35 degrees, its end at its place.
            assert x - size * 0.82 >= 0
            assert float(text.get("y", 0)) + size * 0.58 <= height
        elif text.get("text-anchor") == "end":
            assert x - size >= 0
        else:
            across.append((x - size / 2, x + size / 2))
    assert all(left >= 0 and right <= width for left, right in across)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(across))
