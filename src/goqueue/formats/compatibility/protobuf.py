"""Protobuf's rules for changing a file, by field number.

A reader reads what a writer wrote unless
- a message of the writer is gone, or the package changed;
- a field's type changed to one with another wire format. These may be exchanged: int32, uint32, int64, uint64, bool
  and enums; sint32 and sint64; string and bytes; fixed32 and sfixed32; fixed64 and sfixed64;
- a field's message type changed;
- a field became repeated, or no longer is, and it is not a string, bytes or a message;
- the reader requires a field that the writer lacks or does not require (proto2);
- a field left a oneof of the writer's, or two or more fields that existed before were moved into one oneof.
Fields, messages, enums and oneofs may be added; fields may be renamed and removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goqueue.formats.protobuf import ProtobufSchema
from goqueue.formats.source import Problem, Source

_ENUM, _MESSAGE, _GROUP = 14, 11, 10
_REQUIRED, _REPEATED = 2, 3
# Types of one group share their bytes on the wire.
_GROUPS = ({3, 4, 5, 8, 13, _ENUM}, {17, 18}, {9, 12}, {7, 15}, {6, 16})
_RELABELED = frozenset({9, 12, _MESSAGE, _GROUP})
_NAMES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip


def problems_of(reader: Source, writer: Source) -> list[Problem]:
    """Why the reader cannot read all that the writer writes."""
    new, old = ProtobufSchema(reader).file, ProtobufSchema(writer).file
    if new.package != old.package:
        return [Problem("PACKAGE_CHANGED", "#/", f"the package was {old.package!r} and is {new.package!r}")]
    return list(_messages(new.message_type, old.message_type, "#/"))


def _messages(reader: Any, writer: Any, path: str) -> Iterator[Problem]:
    known = {message.name: message for message in reader}
    for old in writer:
        if old.options.map_entry:
            continue
        new = known.get(old.name)
        if new is None:
            yield Problem("MESSAGE_REMOVED", f"{path}{old.name}", f"message {old.name} was removed")
        else:
            yield from _message(new, old, f"{path}{old.name}/")


def _message(new: Any, old: Any, path: str) -> Iterator[Problem]:
    old_maps = {one.name: one for one in old.nested_type if one.options.map_entry}
    new_maps = {one.name: one for one in new.nested_type if one.options.map_entry}
    written = {field.number: field for field in old.field}
    read = {field.number: field for field in new.field}
    for number, field in written.items():
        if number not in read:
            if field.label == _REQUIRED:
                yield Problem("REQUIRED_FIELD_REMOVED", f"{path}{number}", f"required field {field.name} was removed")
            continue
        yield from _field(read[number], field, new_maps, old_maps, f"{path}{number}")
    for number, field in read.items():
        if field.label == _REQUIRED and (number not in written or written[number].label != _REQUIRED):
            yield Problem("REQUIRED_FIELD_ADDED", f"{path}{number}", f"field {field.name} is required and was not")
    yield from _oneofs(new, old, path)
    yield from _messages(new.nested_type, old.nested_type, path)


def _field(new: Any, old: Any, new_maps: dict[str, Any], old_maps: dict[str, Any], path: str) -> Iterator[Problem]:
    new_map, old_map = new_maps.get(_last(new.type_name)), old_maps.get(_last(old.type_name))
    if (new_map is None) != (old_map is None):
        yield Problem("FIELD_KIND_CHANGED", path, f"field {old.name} is a map in one of the two")
        return
    if new_map is not None and old_map is not None:
        for index in (0, 1):
            yield from _field(new_map.field[index], old_map.field[index], {}, {}, path)
        return
    if not _types_agree(new, old):
        rule = "FIELD_KIND_CHANGED" if _MESSAGE in {new.type, old.type} else "FIELD_SCALAR_KIND_CHANGED"
        yield Problem(rule, path, f"field {old.name} was {_NAMES[old.type]} and is {_NAMES[new.type]}")
    elif new.type == _MESSAGE and new.type_name != old.type_name:
        yield Problem(
            "FIELD_NAMED_TYPE_CHANGED", path, f"field {old.name} was {old.type_name[1:]} and is {new.type_name[1:]}"
        )
    if (new.label == _REPEATED) != (old.label == _REPEATED) and old.type not in _RELABELED:
        yield Problem("FIELD_NUMERIC_LABEL_CHANGED", path, f"field {old.name} is repeated in one of the two")


def _types_agree(new: Any, old: Any) -> bool:
    if new.type == old.type:
        return True
    return any(new.type in group and old.type in group for group in _GROUPS)


def _oneofs(new: Any, old: Any, path: str) -> Iterator[Problem]:
    before, after = _members(old), _members(new)
    old_numbers = {field.number: field.name for field in old.field}
    of_field = {number: name for name, numbers in after.items() for number in numbers}
    for name, numbers in before.items():
        if name not in after:
            # Its fields are plain fields now: what was written still says which of them was set.
            continue
        for number in numbers:
            if of_field.get(number) != name:
                message = f"field {old_numbers[number]} left oneof {name}"
                yield Problem("ONEOF_FIELD_REMOVED", f"{path}{name}/{number}", message)
    for name, numbers in after.items():
        # The writer may have set all of them at once, and the reader keeps only the last.
        moved = [number for number in numbers if number in old_numbers and number not in before.get(name, ())]
        if len(moved) > 1 or (moved and before.get(name)):
            message = f"fields {', '.join(old_numbers[one] for one in moved)} were moved into oneof {name}"
            yield Problem("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}{name}", message)


def _members(message: Any) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            members.setdefault(message.oneof_decl[field.oneof_index].name, []).append(field.number)
    return members


def _last(name: str) -> str:
    return name.rpartition(".")[2]
