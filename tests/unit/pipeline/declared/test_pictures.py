"""A pipeline drawn, and the schema that editors complete from."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest
import yaml
from jsonschema_rs import validator_for

from goqueue.pipeline.declared.form.schema import file_schema
from goqueue.pipeline.declared.load import load_text
from goqueue.pipeline.declared.pictures.graph import draw
from goqueue.pipeline.examples import EXAMPLES, example_text
from goqueue.pipeline.examples.generate import generate

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_has_a_box_for_everything_and_an_arrow_for_every_flow() -> None:
    root = ET.fromstring(draw(load_text(example_text("orders"))))

    titles = [one.text for one in root.iter(f"{SVG}title")]
    assert [title.partition(":")[0] for title in titles if title] == [
        "orders",
        "parsed",
        "clean",
        "big",
        "clean_orders",
        "big_orders",
        "dead letters",
    ]
    assert len(root.findall(f"{SVG}path")) == 6


def test_names_cannot_break_the_picture() -> None:
    text = example_text("orders").replace('"euros >= 100"', "\"euros >= 100 AND '<b>' < '&'\"")

    assert ET.fromstring(draw(load_text(text))) is not None


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_fits_the_schema(example: str) -> None:
    assert validator_for(file_schema()).is_valid(yaml.safe_load(example_text(example)))


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    value = yaml.safe_load(example_text("orders"))
    value["steps"][0]["parse"]["colour"] = "red"

    assert not validator_for(file_schema()).is_valid(value)


def test_made_up_data_is_the_same_for_the_same_seed() -> None:
    rows = list(generate("orders", 200, bad_share=0.1, seed=7))

    assert rows == list(generate("orders", 200, bad_share=0.1, seed=7))
    bad = [row for row in rows if row["value"] == "{cut off"]
    assert 5 < len(bad) < 40
    assert all("amount" in json.loads(row["value"]) for row in rows if row not in bad)


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_arrow_runs_behind_a_box(example: str) -> None:
    root = ET.fromstring(draw(load_text(example_text(example))))
    rects = [one for one in root.iter(f"{SVG}rect") if "x" in one.attrib]
    boxes = [tuple(float(one.get(name, 0)) for name in ("x", "y", "width", "height")) for one in rects]

    for path in root.findall(f"{SVG}path"):
        level = 0.0
        at = 0.0
        for part in re.findall(r"[MCH][^MCH]*", path.get("d", "")):
            numbers = [float(one) for one in part[1:].split()]
            if part[0] == "H":
                for x, y, width, height in boxes:
                    assert not (at < x + width and numbers[0] > x and y <= level <= y + height), (path.get("d"), x, y)
                at = numbers[0]
            else:
                # Curves lie between columns.
                assert part[0] == "M" or not any(at < x < numbers[-2] - 2 for x, *_ in boxes), path.get("d")
                at, level = numbers[-2:]


def test_labels_stay_inside_their_boxes() -> None:
    text = example_text("orders").replace("orders.clean", "orders.clean.of.a.very.long.name.that.goes.on")
    root = ET.fromstring(draw(load_text(text)))

    for group in root.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        assert box is not None
        for line in group.findall(f"{SVG}text"):
            assert 12 + len(line.text or "") * 7.9 <= float(box.get("width", 0))
