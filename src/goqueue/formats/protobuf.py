"""Protobuf: descriptors from text or from base64, one pool per schema, and messages found by their index.

Two schemas are equal if their descriptors are, whatever the comments and the name of the file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from goqueue.errors import InvalidSchema, InvalidValue
from goqueue.formats.libraries import library
from goqueue.formats.protoc import compile_proto
from goqueue.formats.source import Checked, Source

ROOT = "schema.proto"
_WELL_KNOWN = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
# Proto 3 files of Google's that users import without bringing them along, if the package is installed.
_COMMON_TYPES = (
    "calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval", "latlng",
    "localized_text", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday",
)  # fmt: skip


class ProtobufSchema:
    """A Protobuf file with all that it imports."""

    def __init__(self, source: Source) -> None:
        library("google.protobuf")
        pools = library("google.protobuf.descriptor_pool")
        self._factory = library("google.protobuf.message_factory")
        self._decode_error = library("google.protobuf.message").DecodeError
        self.files: dict[str, Any] = {}
        for one in source.imports:
            self._add(one.name, one.text)
        self.file = self._add(ROOT, source.text)
        self.pool = pools.DescriptorPool()
        try:
            for name in _in_order(ROOT, self.files):
                self.pool.AddSerializedFile(self.files[name].SerializeToString())
            self.descriptor = self.pool.FindFileByName(ROOT)
        except (TypeError, KeyError) as error:
            raise InvalidSchema(f"the descriptor is not valid: {error}", field="schema") from error

    @property
    def names(self) -> tuple[str, ...]:
        """The messages of the file itself, nested ones behind their parents."""
        return tuple(_message_names(self.file.message_type, self.file.package))

    def message_name(self, indexes: Sequence[int]) -> str:
        """The message that a prefix names by indexes."""
        at: Any = None
        names = [self.file.package] if self.file.package else []
        try:
            for index in indexes:
                at = (self.file.message_type if at is None else at.nested_type)[index]
                names.append(at.name)
        except IndexError:
            at = None
        if at is None:
            raise InvalidValue(f"the schema has no message with the index {list(indexes)}")
        return ".".join(names)

    def check(self, value: bytes, indexes: Sequence[int] = (0,)) -> None:
        """Raise `InvalidValue` unless the bytes are a message of that index, with all required fields."""
        self._message(value, indexes)

    def decode(self, value: bytes, indexes: Sequence[int] = (0,)) -> Any:
        """The message as JSON has it, with the names of the fields as the schema has them."""
        json_format = library("google.protobuf.json_format")
        message = self._message(value, indexes)
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self.pool)

    def encode(self, document: Any, indexes: Sequence[int] = (0,)) -> bytes:
        """A message from JSON."""
        json_format = library("google.protobuf.json_format")
        message = self._class(indexes)()
        try:
            json_format.ParseDict(document, message, descriptor_pool=self.pool)
        except json_format.ParseError as error:
            raise InvalidValue(f"the value does not fit its Protobuf message: {error}") from error
        return bytes(message.SerializeToString())

    def _message(self, value: bytes, indexes: Sequence[int]) -> Any:
        message = self._class(indexes)()
        try:
            message.ParseFromString(value)
        except self._decode_error as error:
            raise InvalidValue(
                f"the value is not a Protobuf message of type {message.DESCRIPTOR.full_name}: {error}"
            ) from error
        if not message.IsInitialized():
            lacking = ", ".join(message.FindInitializationErrors())
            raise InvalidValue(f"the message lacks required fields: {lacking}")
        return message

    def _class(self, indexes: Sequence[int]) -> Any:
        name = self.message_name(indexes)
        return self._factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def _add(self, name: str, text: str) -> Any:
        file = _from_base64(text)
        if file is None:
            self._bring_well_known(_imported_names(text))
            file = compile_proto(name, text, self.files.values())
        else:
            self._bring_well_known(file.dependency)
        file.name = name
        for needed in file.dependency:
            if needed not in self.files:
                raise InvalidSchema(
                    f"import {needed!r} is not known: register it, and list it under references", field="schema"
                )
        self.files[name] = normalised(file)
        return self.files[name]

    def _bring_well_known(self, names: Sequence[str]) -> None:
        """Files that everybody has are not listed under references."""
        for name in names:
            if name not in self.files:
                for file in _well_known(name):
                    self.files.setdefault(file.name, file)


def check(source: Source, *, normalize: bool) -> Checked:
    """Check a schema; one that came as a descriptor is shown as text."""
    from goqueue.formats.proto_text import to_text

    schema = ProtobufSchema(source)
    if not schema.names and not schema.file.enum_type:
        raise InvalidSchema("the schema defines no message", field="schema")
    is_text = _from_base64(source.text) is None
    anonymous = type(schema.file)()
    anonymous.CopyFrom(schema.file)
    anonymous.name = ""
    return Checked(
        text=source.text if is_text and not normalize else to_text(schema.file),
        canonical=anonymous.SerializeToString(deterministic=True),
        serialized=schema.file.SerializeToString(deterministic=True),
        names=schema.names,
    )


def normalised(file: Any) -> Any:
    """The descriptor without what compilers add or leave out as they please."""
    file.ClearField("source_code_info")
    if file.syntax == "proto2":
        file.ClearField("syntax")
    for message in file.message_type:
        _without_json_names(message)
    for extension in file.extension:
        _without_json_name(extension)
    return file


def _without_json_names(message: Any) -> None:
    for field in (*message.field, *message.extension):
        _without_json_name(field)
    for nested in message.nested_type:
        _without_json_names(nested)


def _without_json_name(field: Any) -> None:
    if field.json_name == camel(field.name):
        field.ClearField("json_name")


def camel(name: str) -> str:
    """The JSON name that a field has if it does not say."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _from_base64(text: str) -> Any:
    """The descriptor that the text spells; None if the text is `.proto` source."""
    if ";" in text or "{" in text or not text.strip():
        return None
    descriptors = library("google.protobuf.descriptor_pb2")
    try:
        return descriptors.FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except binascii.Error:
        return None
    except library("google.protobuf.message").DecodeError as error:
        raise InvalidSchema("the base64 text is not a FileDescriptorProto", field="schema") from error


def _imported_names(text: str) -> list[str]:
    """Which files a text may import: any string in it that ends as they do."""
    return [part for part in text.replace("'", '"').split('"') if part.endswith(".proto")]


def _well_known(name: str) -> Iterator[Any]:
    """The descriptor of a file that everybody has, behind those that it imports itself."""
    folder, _, file_name = name.rpartition("/")
    stem = file_name.removesuffix(".proto")
    if (folder, stem in _WELL_KNOWN) == ("google/protobuf", True):
        module = library(f"google.protobuf.{stem}_pb2")
    elif (folder, stem in _COMMON_TYPES) == ("google/type", True):
        try:
            module = library(f"google.type.{stem}_pb2")
        except Exception:  # noqa: BLE001 - then it is an import like any other
            return
    else:
        return
    descriptors = library("google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for needed in file.dependency:
        yield from _well_known(needed)
    yield file


def _in_order(name: str, files: dict[str, Any]) -> list[str]:
    """Every file that one needs, each behind those that it imports."""
    done: dict[str, None] = {}
    stack = [(name, iter(files[name].dependency))]
    open_names = {name}
    while stack:
        current, needed = stack[-1]
        for one in needed:
            if one in open_names:
                raise InvalidSchema(f"{one!r} imports itself", field="schema")
            if one not in done:
                open_names.add(one)
                stack.append((one, iter(files[one].dependency)))
                break
        else:
            stack.pop()
            open_names.discard(current)
            done[current] = None
    return list(done)


def _message_names(messages: Any, parent: str) -> Iterator[str]:
    for message in messages:
        if message.options.map_entry:
            continue
        name = f"{parent}.{message.name}" if parent else message.name
        yield name
        yield from _message_names(message.nested_type, name)
