"""JSON Schema: every rule of the differ, and a proof by values."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.formats.compatibility.json_differ import Differ, Document
from goqueue.formats.compatibility.json_schema import problems_of
from goqueue.formats.source import Import, SchemaType, Source

OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}


def schema(document: object, *imports: tuple[str, object]) -> Source:
    return Source(SchemaType.JSON, json.dumps(document), tuple(Import(name, json.dumps(one)) for name, one in imports))


# (what it shows, new, old, the rules that are broken)
CASES = [
    ("the same", OPEN, OPEN, []),
    ("annotations change", {**OPEN, "title": "x", "description": "y"}, OPEN, []),
    ("a type is added", {"type": ["string", "null"]}, {"type": "string"}, []),
    ("a type is removed", {"type": "string"}, {"type": ["string", "null"]}, ["TYPE_NARROWED"]),
    ("a type changes", {"type": "integer"}, {"type": "string"}, ["TYPE_CHANGED"]),
    ("integer to number", {"type": "number"}, {"type": "integer"}, []),
    ("number to integer", {"type": "integer"}, {"type": "number"}, ["TYPE_CHANGED"]),
    ("a type where there was none", {"type": "string"}, {}, ["TYPE_NARROWED"]),
    ("anything is allowed now", True, OPEN, []),
    ("nothing is allowed now", False, OPEN, ["SCHEMA_REMOVED"]),
    ("a listed value is added", {"enum": ["a", "b"]}, {"enum": ["a"]}, []),
    ("a listed value is removed", {"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
    ("values are listed now", {"type": "string", "enum": ["a"]}, {"type": "string"}, ["ENUM_ADDED"]),
    ("a const becomes a list", {"enum": [1, 2]}, {"const": 1}, []),
    ("one and true are not the same", {"enum": [1]}, {"enum": [True]}, ["TYPE_CHANGED", "ENUM_ARRAY_NARROWED"]),
    ("an optional property to a closed object", {**CLOSED, "properties": {**CLOSED["properties"], "b": {}}}, CLOSED,
     []),
    ("a property to an open object", {**OPEN, "properties": {**OPEN["properties"], "b": {"type": "integer"}}}, OPEN,
     ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    ("an unconstrained property to an open object", {**OPEN, "properties": {**OPEN["properties"], "b": {}}}, OPEN, []),
    ("a property leaves an open object", {"type": "object"}, OPEN, []),
    ("a property leaves a closed object", {"type": "object", "additionalProperties": False}, CLOSED,
     ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    ("a property changes its type", {**OPEN, "properties": {"a": {"type": "integer"}}}, OPEN, ["TYPE_CHANGED"]),
    ("an object is closed", CLOSED, OPEN, ["ADDITIONAL_PROPERTIES_REMOVED"]),
    ("an object is opened", OPEN, CLOSED, []),
    ("additional properties are narrowed", {"type": "object", "additionalProperties": {"type": "string"}},
     {"type": "object", "additionalProperties": {"type": ["string", "null"]}}, ["ADDITIONAL_PROPERTIES_NARROWED"]),
    ("optional to required", {**OPEN, "required": ["a"]}, OPEN, ["REQUIRED_ATTRIBUTE_ADDED"]),
    ("required to optional", OPEN, {**OPEN, "required": ["a"]}, []),
    ("patternProperties change", {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
     {"type": "object"}, ["PATTERN_PROPERTIES_CHANGED"]),
    ("more properties are asked for", {"type": "object", "minProperties": 1}, {"type": "object"},
     ["MIN_PROPERTIES_INCREASED"]),
    ("fewer properties are allowed", {"type": "object", "maxProperties": 1}, {"type": "object"},
     ["MAX_PROPERTIES_DECREASED"]),
    ("minimum added", {"type": "integer", "minimum": 1}, {"type": "integer"}, ["MINIMUM_ADDED"]),
    ("minimum increased", {"type": "integer", "minimum": 2}, {"type": "integer", "minimum": 1}, ["MINIMUM_INCREASED"]),
    ("minimum decreased", {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}, []),
    ("minimum becomes exclusive", {"type": "number", "exclusiveMinimum": 1}, {"type": "number", "minimum": 1},
     ["MINIMUM_INCREASED"]),
    ("maximum decreased", {"type": "number", "maximum": 1}, {"type": "number", "maximum": 2}, ["MAXIMUM_DECREASED"]),
    ("maximum added", {"type": "number", "maximum": 1}, {"type": "number"}, ["MAXIMUM_ADDED"]),
    ("multipleOf added", {"type": "integer", "multipleOf": 2}, {"type": "integer"}, ["MULTIPLE_OF_ADDED"]),
    ("multipleOf to a divisor", {"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}, []),
    ("multipleOf to another", {"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 4},
     ["MULTIPLE_OF_CHANGED"]),
    ("minLength increased", {"type": "string", "minLength": 2}, {"type": "string"}, ["MIN_LENGTH_INCREASED"]),
    ("maxLength decreased", {"type": "string", "maxLength": 2}, {"type": "string", "maxLength": 3},
     ["MAX_LENGTH_DECREASED"]),
    ("a pattern is added", {"type": "string", "pattern": "^a"}, {"type": "string"}, ["PATTERN_ADDED"]),
    ("a pattern changes", {"type": "string", "pattern": "^ab?$"}, {"type": "string", "pattern": "^x"},
     ["PATTERN_CHANGED"]),
    ("a pattern is removed", {"type": "string"}, {"type": "string", "pattern": "^a"}, []),
    ("a format is added", {"type": "string", "format": "date"}, {"type": "string"}, ["FORMAT_ADDED"]),
    ("a pattern where no strings were", {"type": "integer", "pattern": "^a"}, {"type": "integer"}, []),
    ("items narrow", {"type": "array", "items": {"type": "string"}}, {"type": "array"}, ["TYPE_NARROWED"]),
    ("items widen", {"type": "array"}, {"type": "array", "items": {"type": "string"}}, []),
    ("the items of a tuple change", {"type": "array", "items": [{"type": "string"}]},
     {"type": "array", "items": [{"type": "integer"}]}, ["TYPE_CHANGED"]),
    ("more items are asked for", {"type": "array", "minItems": 1}, {"type": "array"}, ["MIN_ITEMS_INCREASED"]),
    ("fewer items are allowed", {"type": "array", "maxItems": 1}, {"type": "array"}, ["MAX_ITEMS_DECREASED"]),
    ("items must be unique", {"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
    ("a branch is added to anyOf", {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}]},
     []),
    ("a branch is removed from anyOf", {"anyOf": [{"type": "string"}]},
     {"anyOf": [{"type": "string"}, {"type": "null"}]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    ("a disjoint branch is added to oneOf", {"oneOf": [{"type": "string"}, {"type": "null"}]},
     {"oneOf": [{"type": "string"}]}, []),
    ("an overlapping branch is added to oneOf", {"oneOf": [{"type": "string"}, {"type": "string", "minLength": 3}]},
     {"oneOf": [{"type": "string"}]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    ("a demand is added to allOf", {"allOf": [OPEN, {"required": ["a"]}]}, {"allOf": [OPEN]},
     ["REQUIRED_ATTRIBUTE_ADDED"]),
    ("a demand leaves allOf", {"allOf": [OPEN]}, {"allOf": [OPEN, {"required": ["a"]}]}, []),
    ("an unknown keyword is added", {"not": {"type": "string"}}, {}, ["KEYWORD_CHANGED"]),
    ("a reference stands for the same", {"$ref": "#/definitions/x", "definitions": {"x": OPEN}}, OPEN, []),
    ("what a reference stands for changes",
     {"type": "object", "properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"type": "integer"}}},
     OPEN, ["TYPE_CHANGED"]),
    ("a recursive schema", {"properties": {"next": {"$ref": "#"}, "a": {"type": "number"}}},
     {"properties": {"next": {"$ref": "#"}, "a": {"type": "integer"}}}, []),
    ("a recursive schema changes within", {"properties": {"next": {"$ref": "#"}, "a": {"type": "integer"}}},
     {"properties": {"next": {"$ref": "#"}, "a": {"type": "string"}}}, ["TYPE_CHANGED"]),
    ("an unknown reference", {"$ref": "#nowhere"}, OPEN, ["REFERENCE_UNKNOWN"]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "rules"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_rule_of_the_differ(new, old, rules):
    differ = Differ(Document(new, {}), Document(old, {}))
    assert [problem.rule for problem in differ.compare(new, old, "#")] == rules


def test_a_problem_names_its_path():
    new = {"properties": {"home": {"properties": {"zip": {"type": "integer"}}}}}
    old = {"properties": {"home": {"properties": {"zip": {"type": "string"}}}}}
    assert problems_of(schema(new), schema(old))[0].path == "#/properties/home/properties/zip/type"


def test_what_the_differ_cannot_see_the_library_proves():
    new = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert problems_of(schema(new), schema({"type": ["string", "integer"]})) == []


def test_imported_schemas_are_compared_too():
    user = {"properties": {"home": {"$ref": "home.json"}}}
    narrow, wide = {"type": "string"}, {"type": ["string", "null"]}
    old, new = schema(user, ("home.json", narrow)), schema(user, ("home.json", wide))
    assert problems_of(new, old) == []
    assert problems_of(old, new) != []


LEAVES = st.sampled_from([
    True, {}, {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": ["string", "null"]},
    {"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 2}, {"enum": ["a", 1]}, {"const": None},
    {"type": "array", "items": {"type": "string"}}, {"type": "number", "multipleOf": 2},
    {"anyOf": [{"type": "string"}, {"type": "integer", "maximum": 5}]},
    {"oneOf": [{"type": "string"}, {"type": "null"}]}, {"not": {"type": "string"}},
])  # fmt: skip
OBJECTS = st.builds(
    lambda properties, required, rest: {
        "type": "object",
        "properties": properties,
        "required": sorted(required & properties.keys()),
        "additionalProperties": rest,
    },
    st.dictionaries(st.sampled_from("abc"), LEAVES, max_size=3),
    st.sets(st.sampled_from("abc")),
    st.sampled_from([True, False, {"type": "string"}]),
)
SCHEMAS = st.one_of(LEAVES, OBJECTS)
SCALARS = st.sampled_from(["", "a", "abc", 0, 1, 2, 7, -1, 1.5, None, True, ["a"], [1]])
VALUES = st.one_of(SCALARS, st.dictionaries(st.sampled_from("abcd"), SCALARS, max_size=4))


@settings(max_examples=120, deadline=None)
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, min_size=5, max_size=10))
def test_a_schema_judged_backward_compatible_allows_what_the_old_one_allowed(new, old, values):
    if problems_of(schema(new), schema(old)):
        return
    for value in values:
        if jsonschema_rs.Draft7Validator(old).is_valid(value):
            assert jsonschema_rs.Draft7Validator(new).is_valid(value), (new, old, value)
