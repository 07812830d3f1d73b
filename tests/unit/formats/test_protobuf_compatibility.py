"""Protobuf's rules for changing a file, one case each."""

from __future__ import annotations

import pytest

from goqueue.formats.compatibility.protobuf import problems_of
from goqueue.formats.source import SchemaType, Source


def proto(body: str, head: str = 'syntax = "proto3";') -> Source:
    return Source(SchemaType.PROTOBUF, f"{head} {body}")


def message(fields: str) -> Source:
    return proto(f"message M {{ {fields} }}")


def old(fields: str) -> Source:
    return proto(f"message M {{ {fields} }}", 'syntax = "proto2";')


# (what it shows, reader, writer, the rule that is broken or None)
CASES = [
    ("the same", message("int32 a = 1;"), message("int32 a = 1;"), None),
    ("a field is added", message("int32 a = 1; string b = 2;"), message("int32 a = 1;"), None),
    ("a field is removed", message(""), message("int32 a = 1;"), None),
    ("a field is renamed", message("int32 b = 1;"), message("int32 a = 1;"), None),
    ("int32 to int64", message("int64 a = 1;"), message("int32 a = 1;"), None),
    ("int32 to bool", message("bool a = 1;"), message("int32 a = 1;"), None),
    ("sint32 to sint64", message("sint64 a = 1;"), message("sint32 a = 1;"), None),
    ("int32 to sint32", message("sint32 a = 1;"), message("int32 a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    ("string to bytes", message("bytes a = 1;"), message("string a = 1;"), None),
    ("string to int32", message("int32 a = 1;"), message("string a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    ("fixed32 to sfixed32", message("sfixed32 a = 1;"), message("fixed32 a = 1;"), None),
    ("fixed32 to fixed64", message("fixed64 a = 1;"), message("fixed32 a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    ("float to double", message("double a = 1;"), message("float a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    ("an enum to int32", message("int32 a = 1;"), message("enum E { Z = 0; } E a = 1;"), None),
    ("a number becomes repeated", message("repeated int32 a = 1;"), message("int32 a = 1;"),
     "FIELD_NUMERIC_LABEL_CHANGED"),
    ("a string becomes repeated", message("repeated string a = 1;"), message("string a = 1;"), None),
    ("a scalar becomes a message", message("message N {} N a = 1;"), message("int32 a = 1;"), "FIELD_KIND_CHANGED"),
    ("the message type changes", message("message N {} message O {} O a = 1;"),
     message("message N {} message O {} N a = 1;"), "FIELD_NAMED_TYPE_CHANGED"),
    ("a message is removed", proto("message A {}"), proto("message A {} message B {}"), "MESSAGE_REMOVED"),
    ("a message is added", proto("message A {} message B {}"), proto("message A {}"), None),
    ("a nested message changes", message("message N { string a = 1; }"), message("message N { int32 a = 1; }"),
     "FIELD_SCALAR_KIND_CHANGED"),
    ("the package changes", proto("package b; message A {}"), proto("package a; message A {}"), "PACKAGE_CHANGED"),
    ("the values of a map change", message("map<string, string> a = 1;"), message("map<string, int32> a = 1;"),
     "FIELD_SCALAR_KIND_CHANGED"),
    ("a map becomes a message", message("message N {} repeated N a = 1;"), message("map<string, int32> a = 1;"),
     "FIELD_KIND_CHANGED"),
    ("a field is added to a oneof", message("oneof x { int32 a = 1; int32 b = 2; }"),
     message("oneof x { int32 a = 1; }"), None),
    ("one field moves into a new oneof", message("oneof x { int32 a = 1; int32 b = 2; }"), message("int32 a = 1;"),
     None),
    ("two fields move into a oneof", message("oneof x { int32 a = 1; int32 b = 2; }"),
     message("int32 a = 1; int32 b = 2;"), "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
    ("a field moves into an existing oneof", message("oneof x { int32 a = 1; int32 b = 2; }"),
     message("oneof x { int32 a = 1; } int32 b = 2;"), "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
    ("a field leaves a oneof", message("oneof x { int32 a = 1; }"), message("oneof x { int32 a = 1; int32 b = 2; }"),
     "ONEOF_FIELD_REMOVED"),
    ("a field becomes optional", message("optional int32 a = 1;"), message("int32 a = 1;"), None),
    ("a required field is added", old("required int32 a = 1;"), old(""), "REQUIRED_FIELD_ADDED"),
    ("a required field is removed", old(""), old("required int32 a = 1;"), "REQUIRED_FIELD_REMOVED"),
    ("required to optional", old("optional int32 a = 1;"), old("required int32 a = 1;"), None),
    ("an enum value is added", message("enum E { Z = 0; Y = 1; } E a = 1;"), message("enum E { Z = 0; } E a = 1;"),
     None),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "rule"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_a_reader_reads(reader, writer, rule):
    found = [problem.rule for problem in problems_of(reader, writer)]
    assert found == ([] if rule is None else [rule])
