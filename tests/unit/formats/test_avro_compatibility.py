"""Avro's resolution rules, one case each: can the reader read what the writer wrote?"""

from __future__ import annotations

import json
from io import BytesIO

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.formats.compatibility.avro import problems_of
from goqueue.formats.source import Import, SchemaType, Source


def avro(document: object, *imports: tuple[str, object]) -> Source:
    return Source(SchemaType.AVRO, json.dumps(document), tuple(Import(name, json.dumps(one)) for name, one in imports))


def record(*fields: dict[str, object], name: str = "R", **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: object) -> dict[str, object]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


LIST = record(field("next", ["null", "R"]), field("value", "int"))
# (what it shows, reader, writer, the rule that is broken or None)
CASES = [
    ("the same", "int", "int", None),
    ("int to long", "long", "int", None),
    ("int to double", "double", "int", None),
    ("long to float", "float", "long", None),
    ("string to bytes", "bytes", "string", None),
    ("bytes to string", "string", "bytes", None),
    ("long to int", "int", "long", "TYPE_MISMATCH"),
    ("double to float", "float", "double", "TYPE_MISMATCH"),
    ("string to int", "int", "string", "TYPE_MISMATCH"),
    ("a logical type on top", {"type": "long", "logicalType": "timestamp-millis"}, "long", None),
    ("a field with a default is added", record(field("a", "int", default=0)), record(), None),
    ("a field without a default is added", record(field("a", "int")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE"),
    ("a field is removed", record(), record(field("a", "int")), None),
    ("a field is renamed with an alias", record(field("b", "int", aliases=["a"])), record(field("a", "int")), None),
    ("a field's type is promoted", record(field("a", "long")), record(field("a", "int")), None),
    ("a field's type changes", record(field("a", "string")), record(field("a", "int")), "TYPE_MISMATCH"),
    ("a field becomes nullable", record(field("a", ["null", "int"])), record(field("a", "int")), None),
    ("a field is no longer nullable", record(field("a", "int")), record(field("a", ["null", "int"])), "TYPE_MISMATCH"),
    ("a record is renamed", record(name="New"), record(), "NAME_MISMATCH"),
    ("a record is renamed with an alias", record(name="New", aliases=["R"]), record(), None),
    ("the namespace changes", record(namespace="b"), record(namespace="a"), None),
    ("a symbol is added", enum("A", "B"), enum("A"), None),
    ("a symbol is removed", enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS"),
    ("a symbol is removed, with a default", enum("A", default="A"), enum("A", "B"), None),
    ("the size changes", {"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8},
     "FIXED_SIZE_MISMATCH"),
    ("items are promoted", {"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None),
    ("items change", {"type": "array", "items": "int"}, {"type": "array", "items": "string"}, "TYPE_MISMATCH"),
    ("values are promoted", {"type": "map", "values": "double"}, {"type": "map", "values": "float"}, None),
    ("values change", {"type": "map", "values": "int"}, {"type": "map", "values": "null"}, "TYPE_MISMATCH"),
    ("a branch is added", ["null", "int", "string"], ["null", "int"], None),
    ("a branch is removed", ["null", "int"], ["null", "int", "string"], "MISSING_UNION_BRANCH"),
    ("a type becomes a union of it", ["null", "int"], "int", None),
    ("a type becomes a union without it", ["null", "string"], "int", "MISSING_UNION_BRANCH"),
    ("a union of one becomes the type", "int", ["int"], None),
    ("a recursive record", LIST, LIST, None),
    ("a recursive record changes within", record(field("next", ["null", "R"]), field("value", "string")), LIST,
     "TYPE_MISMATCH"),
    ("an array becomes a map", {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "TYPE_MISMATCH"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "rule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_a_reader_reads(reader, writer, rule):
    found = [problem.rule for problem in problems_of(avro(reader), avro(writer))]
    assert found == ([] if rule is None else [rule])


def test_a_problem_names_its_path():
    reader = record(field("home", record(field("zip", "int"), name="Home")))
    writer = record(field("home", record(field("zip", "string"), name="Home")))
    assert problems_of(avro(reader), avro(writer))[0].path == "/fields/0/type/fields/0/type"


def test_referenced_types_are_compared_too():
    user = record(field("home", "shop.Home"), name="User")
    home = record(field("zip", "int"), name="Home", namespace="shop")
    wider = record(field("zip", "long"), name="Home", namespace="shop")
    old, new = avro(user, ("shop.Home", home)), avro(user, ("shop.Home", wider))
    assert problems_of(new, old) == []
    assert [problem.rule for problem in problems_of(old, new)] == ["TYPE_MISMATCH"]


PRIMITIVE = st.sampled_from(["int", "long", "float", "double", "string", "bytes", "boolean", "null"])
TYPES = st.recursive(
    PRIMITIVE,
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda one: {"type": "map", "values": one}, inner),
        st.lists(PRIMITIVE, min_size=1, max_size=3, unique=True),
    ),
    max_leaves=4,
)
VALUES = {
    "int": 1,
    "long": 2**40,
    "float": 1.5,
    "double": 2.5,
    "string": "x",
    "bytes": b"y",
    "boolean": True,
    "null": None,
}


def value_of(kind: object) -> object:
    if isinstance(kind, list):
        return value_of(kind[-1])
    if isinstance(kind, dict):
        return [value_of(kind["items"])] if kind["type"] == "array" else {"k": value_of(kind["values"])}
    return VALUES[kind]


@st.composite
def evolved(draw):
    """Two versions of a record: fields kept, changed, removed and added."""
    names = ["a", "b", "c", "d"]
    old = {name: draw(TYPES) for name in names if draw(st.booleans())}
    new = []
    for name in names:
        if draw(st.booleans()):
            kind = draw(st.one_of(st.just(old[name]), TYPES)) if name in old else draw(PRIMITIVE)
            more = (
                {"default": VALUES[kind]} if isinstance(kind, str) and kind != "bytes" and draw(st.booleans()) else {}
            )
            new.append(field(name, kind, **more))
    return record(*(field(name, kind) for name, kind in old.items())), record(*new)


@settings(max_examples=60, deadline=None)
@given(evolved())
def test_a_schema_judged_backward_compatible_reads_what_the_old_one_wrote(versions):
    old, new = versions
    if problems_of(avro(new), avro(old)):
        return
    out = BytesIO()
    fastavro.schemaless_writer(out, old, {one["name"]: value_of(one["type"]) for one in old["fields"]})
    decoded = fastavro.schemaless_reader(BytesIO(out.getvalue()), old, new)
    assert set(decoded) == {one["name"] for one in new["fields"]}
