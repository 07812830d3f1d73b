"""What is a schema, and when are two of them the same?"""

from __future__ import annotations

import base64

import pytest

from goqueue.errors import InvalidSchema, InvalidValue
from goqueue.formats.source import Import, SchemaType, Source
from goqueue.formats.work import check_schema, check_values, compiled

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import public "other.proto";
option java_package = "com.example.shop";
// A comment that is no part of the schema.
message Order {
  option deprecated = true;
  int32 id = 1;
  google.protobuf.Timestamp at = 2;
  oneof payment { string card = 3; int64 voucher = 4; }
  map<string, Item> items = 5;
  optional int32 note_count = 6 [json_name = "nc"];
  other.Other other = 7;
  repeated int32 loose = 8 [packed = false, deprecated = true];
  message Item { enum Kind { option allow_alias = true; A = 0; B = 0; reserved 5 to 7, 9 to max; reserved "OLD"; }
    Kind kind = 1; }
  reserved 100 to 200, 300 to max;
  reserved "foo", "bar";
}
enum Top { ZERO = 0; ONE = 1 [deprecated = true]; }
service Shop { rpc Get(Order) returns (stream Order);
  rpc Put(stream Order) returns (Order) { option deprecated = true; } }
"""
OTHER = 'syntax = "proto3"; package other; message Other { string name = 1; }'
PROTO_2 = r"""
syntax = "proto2";
message Old {
  required string name = 1 [default = "a \"quoted\" text\n"];
  optional bytes raw = 2 [default = "\001\377"];
  optional double limit = 3 [default = inf];
  optional bool on = 4 [default = true];
  optional Kind kind = 5 [default = B];
  repeated group Part = 6 { optional int32 size = 1; }
  enum Kind { A = 0; B = -1; }
  extensions 100 to 199;
  extensions 500 to max;
}
extend Old { optional int32 extra = 100; }
"""


def check(kind: SchemaType, text: str, *imports: tuple[str, str], normalize: bool = False):
    return check_schema(Source(kind, text, tuple(Import(*one) for one in imports)), normalize=normalize)


@pytest.mark.parametrize(("text", "imports"), [(PROTO, (("other.proto", OTHER),)), (PROTO_2, ())])
def test_a_descriptor_printed_as_text_compiles_to_the_same_descriptor(text, imports):
    first = check(SchemaType.PROTOBUF, text, *imports)
    printed = check(SchemaType.PROTOBUF, base64.b64encode(first.serialized).decode(), *imports)
    again = check(SchemaType.PROTOBUF, printed.text, *imports)

    assert first.text == text, "a text is shown as it was sent"
    assert printed.text != text
    assert first.canonical == printed.canonical == again.canonical


def test_the_order_of_keys_and_white_space_do_not_make_another_json_schema():
    one = check(SchemaType.JSON, '{"type": "object", "title": "T"}')
    other = check(SchemaType.JSON, '{"title":"T","type":"object"}')
    assert one.canonical == other.canonical
    assert one.names == ("T",)
    assert one.text != other.text
    assert check(SchemaType.JSON, '{"type": "object", "title": "T"}', normalize=True).text == other.text


def test_the_order_of_fields_makes_another_avro_schema_and_spelling_does_not():
    fields = '{"name":"a","type":"int"},{"name":"b","type":"int"}'
    one = check(SchemaType.AVRO, f'{{"type":"record","name":"R","fields":[{fields}]}}')
    spaced = check(SchemaType.AVRO, f'{{"name": "R", "type": "record", "fields": [{fields}]}}')
    turned = '{"name":"b","type":"int"},{"name":"a","type":"int"}'
    other = check(SchemaType.AVRO, f'{{"type":"record","name":"R","fields":[{turned}]}}')
    assert one.canonical == spaced.canonical != other.canonical


def test_a_normalized_avro_schema_has_full_names_and_bare_types():
    text = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"string"}}]}'
    assert (
        check(SchemaType.AVRO, text, normalize=True).text
        == '{"fields":[{"name":"a","type":"string"}],"name":"n.R","type":"record"}'
    )


BAD = [
    (SchemaType.JSON, "nonsense", "not valid JSON"),
    (SchemaType.JSON, "[]", "object, true or false"),
    (SchemaType.JSON, '{"type": "text"}', "text"),
    (SchemaType.JSON, '{"$schema": "http://example.com/own"}', "not a known draft"),
    (SchemaType.JSON, '{"$ref": "http://127.0.0.1:9/x.json"}', "list it under references"),
    (SchemaType.JSON, '{"$ref": "#/definitions/nowhere"}', "nowhere"),
    (SchemaType.JSON, '{"pattern": "(?=a)b"}', "linear time"),
    (SchemaType.JSON, '{"a":' * 2000 + "1" + "}" * 2000, "nested too deeply"),
    (SchemaType.AVRO, "nonsense", "not valid JSON"),
    (SchemaType.AVRO, '{"type": "record", "name": "R"}', "'fields'"),
    (SchemaType.AVRO, '{"type": "record", "name": "1R", "fields": []}', "not an Avro name"),
    (SchemaType.AVRO, '{"type": "record", "fields": []}', "no name"),
    (SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
     "two fields 'a'"),
    (SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}', "Default"),
    (SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"shop.Other"}]}', "'shop.Other'"),
    (SchemaType.AVRO, '["null", "null"]', "twice"),
    (SchemaType.AVRO, '["null", ["int"]]', "directly inside a union"),
    (SchemaType.AVRO, '{"type": "enum", "name": "E", "symbols": ["a-b"]}', "'symbols'"),
    (SchemaType.AVRO, '{"type": "array"}', "'items'"),
    (SchemaType.AVRO, "5", "not an Avro type"),
    (SchemaType.AVRO, '{"type": "fixed", "name": "F"}', "not valid Avro"),
    (SchemaType.PROTOBUF, "no schema", "schema.proto:1:1"),
    (SchemaType.PROTOBUF, 'syntax = "proto3"; message A { int32 a = 0; }', "positive"),
    (SchemaType.PROTOBUF, 'syntax = "proto3"; import "nope.proto"; message A {}', "nope.proto"),
    (SchemaType.PROTOBUF, 'syntax = "proto3";', "no message"),
    (SchemaType.PROTOBUF, base64.b64encode(b"nonsense").decode(), "FileDescriptorProto"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "reason"), BAD, ids=[f"{kind} {text[:40]}" for kind, text, _ in BAD])
def test_what_is_not_a_schema_is_refused_with_the_reason(kind, text, reason):
    with pytest.raises(InvalidSchema) as raised:
        check(kind, text)
    assert reason in str(raised.value)


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07"])
def test_old_drafts_are_known(draft):
    assert check(SchemaType.JSON, f'{{"$schema": "http://json-schema.org/{draft}/schema#", "type": "string"}}')


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_new_drafts_are_known(draft):
    assert check(SchemaType.JSON, f'{{"$schema": "https://json-schema.org/draft/{draft}/schema", "type": "string"}}')


def test_json_values_are_checked_and_the_path_is_told():
    text = '{"type":"object","properties":{"a":{"properties":{"b":{"type":"integer"}}}},"additionalProperties":false}'
    schema = compiled(Source(SchemaType.JSON, text))
    good, bad, odd, broken = check_values(schema, [b'{"a":{"b":1}}', b'{"a":{"b":"x"}}', b'{"z":1}', b"{"])
    assert good == ""
    assert "/a/b" in bad
    assert "'z'" in odd
    assert "not valid JSON" in broken


def test_avro_values_are_checked_to_the_last_byte():
    schema = compiled(Source(SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'))
    good, short, long, empty = check_values(schema, [b"\x02x", b"\x06x", b"\x02xyz", b""])
    assert good == ""
    assert short
    assert "2 bytes are left over" in long
    assert "ends too early" in empty


def test_protobuf_values_are_checked_by_the_message_that_their_indexes_name():
    text = 'syntax = "proto2"; message A { message In { required string s = 1; } } message B { optional int32 i = 1; }'
    schema = compiled(Source(SchemaType.PROTOBUF, text))
    indexes = [(1,), (0, 0), (0, 0), (5,), (0,)]
    values = [b"\x08\x01", b"\x0a\x01x", b"", b"", b"\xff"]
    good, nested, missing, unknown, broken = check_values(schema, values, indexes)
    assert (good, nested) == ("", "")
    assert "s" in missing
    assert "no message with the index" in unknown
    assert "not a Protobuf message" in broken


def test_a_json_value_may_be_any_type_that_its_schema_allows():
    with pytest.raises(InvalidValue):
        compiled(Source(SchemaType.JSON, '{"type":"string"}')).check(b"1")
    compiled(Source(SchemaType.JSON, "true")).check(b"1")


def test_an_avro_schema_is_written_out_with_what_it_references():
    home = '{"type":"record","namespace":"shop","name":"Home","fields":[{"name":"zip","type":"int"}]}'
    user = '{"type":"record","name":"User","fields":[{"name":"a","type":"shop.Home"},{"name":"b","type":"shop.Home"}]}'
    schema = compiled(Source(SchemaType.AVRO, user, (Import("shop.Home", home),)))
    assert schema.decode(b"\x02\x04") == {"a": {"zip": 1}, "b": {"zip": 2}}
