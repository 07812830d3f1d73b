"""A Protobuf descriptor as `.proto` text. Compiling the text gives the same descriptor again.

Options that are extensions are left out: the text could not name them without the files that define them.
The descriptor itself is kept beside the text, so nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from goqueue.errors import InvalidSchema

_INDENT = "  "
_SCALARS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_MESSAGE, _GROUP = 11, 10
_REQUIRED, _REPEATED = 2, 3
_FIELD_NUMBER_MAX = 536_870_911
_ENUM_NUMBER_MAX = 2**31 - 1


def to_text(file: Any) -> str:
    """The file as text."""
    if file.syntax not in {"", "proto2", "proto3"}:
        raise InvalidSchema(
            f"a descriptor with {file.syntax!r} cannot be shown as text",
            field="schema",
            hint="register the .proto text",
        )
    return "\n".join(_file(file)) + "\n"


def _file(file: Any) -> Iterator[str]:
    is_proto3 = file.syntax == "proto3"
    yield f'syntax = "{"proto3" if is_proto3 else "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    for index, name in enumerate(file.dependency):
        kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
        yield f'import {kind}"{name}";'
    yield from (f"option {option};" for option in _options(file.options))
    for message in file.message_type:
        yield ""
        yield from _message(message, is_proto3)
    for enum in file.enum_type:
        yield ""
        yield from _enum(enum)
    yield from _extensions(file.extension, is_proto3)
    for service in file.service:
        yield ""
        yield from _service(service)


def _message(message: Any, is_proto3: bool, keyword: str | None = None) -> Iterator[str]:  # noqa: FBT001
    yield (keyword or f"message {message.name}") + " {"
    body: list[str] = [f"option {option};" for option in _options(message.options)]
    maps = {f"{one.name}": one for one in message.nested_type if one.options.map_entry}
    groups = _groups((*message.field, *message.extension), message.nested_type)
    written: set[int] = set()
    for field in message.field:
        # The oneof that an optional field of proto3 is wrapped in is not written.
        if not field.HasField("oneof_index") or field.proto3_optional:
            body += _field(field, is_proto3, maps, groups)
        elif field.oneof_index not in written:
            written.add(field.oneof_index)
            oneof = message.oneof_decl[field.oneof_index]
            body.append(f"oneof {oneof.name} {{")
            body += [f"{_INDENT}option {option};" for option in _options(oneof.options)]
            for one in message.field:
                if one.HasField("oneof_index") and one.oneof_index == field.oneof_index:
                    body += (_INDENT + line for line in _field(one, is_proto3, maps, groups, in_oneof=True))
            body.append("}")
    for nested in message.nested_type:
        if not nested.options.map_entry and nested.name not in groups:
            body += _message(nested, is_proto3)
    for enum in message.enum_type:
        body += _enum(enum)
    for one in message.extension_range:
        body.append(f"extensions {_range(one.start, one.end - 1, _FIELD_NUMBER_MAX)};")
    body += _extensions(message.extension, is_proto3, groups)
    for one in message.reserved_range:
        body.append(f"reserved {_range(one.start, one.end - 1, _FIELD_NUMBER_MAX)};")
    body += [f"reserved {_quoted(name)};" for name in message.reserved_name]
    yield from (_INDENT + line for line in body)
    yield "}"


def _field(
    field: Any,
    is_proto3: bool,  # noqa: FBT001
    maps: dict[str, Any],
    groups: dict[str, Any],
    *,
    in_oneof: bool = False,
) -> Iterator[str]:
    options = list(_field_options(field))
    tail = f" [{', '.join(options)}]" if options else ""
    entry = maps.get(field.type_name.rpartition(".")[2]) if field.type == _MESSAGE else None
    if entry is not None and field.label == _REPEATED:
        key, value = entry.field
        yield f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{tail};"
        return
    label = "" if in_oneof else _label(field, is_proto3)
    group = groups.get(field.type_name.rpartition(".")[2]) if field.type == _GROUP else None
    if group is not None:
        yield from _message(group, is_proto3, f"{label}group {group.name} = {field.number}{tail}")
        return
    yield f"{label}{_type(field)} {field.name} = {field.number}{tail};"


def _label(field: Any, is_proto3: bool) -> str:  # noqa: FBT001
    if field.label == _REPEATED:
        return "repeated "
    if field.label == _REQUIRED:
        return "required "
    return "optional " if field.proto3_optional or not is_proto3 else ""


def _groups(fields: Any, nested: Any) -> dict[str, Any]:
    names = {field.type_name.rpartition(".")[2] for field in fields if field.type == _GROUP}
    return {one.name: one for one in nested if one.name in names}


def _type(field: Any) -> str:
    return _SCALARS.get(field.type) or field.type_name


def _field_options(field: Any) -> Iterator[str]:
    if field.HasField("default_value"):
        yield f"default = {_default(field)}"
    if field.json_name:
        yield f"json_name = {_quoted(field.json_name)}"
    yield from _options(field.options)


def _default(field: Any) -> str:
    if field.type == 9:
        return _quoted(field.default_value)
    # Bytes come escaped as C escapes them, which is how they are written.
    return f'"{field.default_value}"' if field.type == 12 else field.default_value


def _enum(enum: Any) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from (f"{_INDENT}option {option};" for option in _options(enum.options))
    for value in enum.value:
        options = list(_options(value.options))
        tail = f" [{', '.join(options)}]" if options else ""
        yield f"{_INDENT}{value.name} = {value.number}{tail};"
    for one in enum.reserved_range:
        yield f"{_INDENT}reserved {_range(one.start, one.end, _ENUM_NUMBER_MAX)};"
    yield from (f"{_INDENT}reserved {_quoted(name)};" for name in enum.reserved_name)
    yield "}"


def _extensions(extensions: Any, is_proto3: bool, groups: dict[str, Any] | None = None) -> Iterator[str]:  # noqa: FBT001
    for field in extensions:
        yield f"extend {field.extendee} {{"
        yield from (_INDENT + line for line in _field(field, is_proto3, {}, groups or {}))
        yield "}"


def _service(service: Any) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from (f"{_INDENT}option {option};" for option in _options(service.options))
    for method in service.method:
        taken = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        given = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        head = f"{_INDENT}rpc {method.name}({taken}) returns ({given})"
        options = list(_options(method.options))
        if not options:
            yield f"{head};"
            continue
        yield f"{head} {{"
        yield from (f"{_INDENT * 2}option {option};" for option in options)
        yield f"{_INDENT}}}"
    yield "}"


def _options(options: Any) -> Iterator[str]:
    for described, value in options.ListFields():
        if described.is_extension or described.message_type is not None or described.name == "map_entry":
            continue
        values = value if described.is_repeated else (value,)
        for one in values:
            yield f"{described.name} = {_option_value(described, one)}"


def _option_value(described: Any, value: Any) -> str:
    if described.enum_type is not None:
        return str(described.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _range(first: int, last: int, number_max: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= number_max else last}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
