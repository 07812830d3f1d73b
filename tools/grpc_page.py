"""Writes `docs/reference/grpc.md` from the protos: services, methods, messages and enums with their comments.

    python tools/grpc_page.py [FILE]      (without a file: docs/reference/grpc.md)

A test fails while the page is not what this program would write.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "grpc.md"
PREAMBLE = """\
# gRPC

The services of `proto/goqueue/v1`, package `goqueue.v1`. This page is written from the protos by `make docs` and tested
to be current; [the how-to](../howto/grpc.md) shows them in use. Health is `grpc.health.v1.Health`, and with
`grpc.reflection` on, tools such as grpcurl find everything on this page by themselves.

Every method that is not a stream is also an operation of the HTTP API, with the same names, limits and errors.
An error is a gRPC status with details (`google.rpc.ErrorInfo` with the code as its reason, `BadRequest` with the field,
`RetryInfo` where sending again can help). A field that may be absent is marked *optional*.
"""
_SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
    if name not in {"TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP"}
}
Comments = Mapping[tuple[int, ...], str]


def page() -> str:
    """The whole page."""
    files = _files()
    services, messages, enums = [], [], []
    for file in files:
        comments = _comments(file)
        services += [_service(one, (6, at), comments) for at, one in enumerate(file.service)]
        messages += [(one.name, _message(one, (4, at), comments)) for at, one in enumerate(file.message_type)]
        enums += [(one.name, _enum(one, (5, at), comments)) for at, one in enumerate(file.enum_type)]
    parts = [PREAMBLE, "## Services", *services, "## Messages", *(text for _, text in sorted(messages))]
    return "\n".join([*parts, "## Enums", *(text for _, text in sorted(enums))]).rstrip() + "\n"


def _files() -> Sequence[Any]:
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    protos = sorted(str(one) for one in (ROOT / "proto").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as made:
        target = Path(made, "all.binpb")
        arguments = [
            f"-I{ROOT / 'proto'}",
            f"-I{well_known}",
            f"--descriptor_set_out={target}",
            "--include_source_info",
        ]
        if protoc.main(["protoc", *arguments, *protos]):
            sys.exit("protoc refused the protos: see above")
        return descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file


def _comments(file: Any) -> Comments:
    found = {}
    for one in file.source_code_info.location:
        text = " ".join(line.strip() for line in one.leading_comments.strip().splitlines() if line.strip())
        if text:
            found[tuple(one.path)] = text
    return found


def _service(service: Any, path: tuple[int, ...], comments: Comments) -> str:
    lines = [
        f"### {service.name}\n",
        comments.get(path, "") + "\n",
        "| method | request | response | |",
        "|---|---|---|---|",
    ]
    for at, method in enumerate(service.method):
        request = ("stream " if method.client_streaming else "") + _link(method.input_type)
        response = ("stream " if method.server_streaming else "") + _link(method.output_type)
        lines.append(f"| `{method.name}` | {request} | {response} | {comments.get((*path, 2, at), '')} |")
    return "\n".join(lines) + "\n"


def _message(message: Any, path: tuple[int, ...], comments: Comments) -> str:
    lines = [f"### {message.name}\n", comments.get(path, "") + "\n"]
    rows = [*_fields(message, path, comments)]
    if rows:
        lines += ["| field | type | number | |", "|---|---|---:|---|", *rows]
    return "\n".join(lines) + "\n"


def _fields(message: Any, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    maps = {one.name: one for one in message.nested_type if one.options.map_entry}
    for at, field in enumerate(message.field):
        entry = maps.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            kind = f"map of {_kind(entry.field[0])} to {_kind(entry.field[1])}"
        else:
            kind = _kind(field)
            if field.label == field.LABEL_REPEATED:
                kind = f"repeated {kind}"
        if field.proto3_optional:
            kind = f"*optional* {kind}"
        elif field.HasField("oneof_index"):
            kind = f"{kind}, one of `{message.oneof_decl[field.oneof_index].name}`"
        yield f"| `{field.name}` | {kind} | {field.number} | {comments.get((*path, 2, at), '')} |"


def _kind(field: Any) -> str:
    return _SCALARS.get(field.type) or _link(field.type_name)


def _link(name: str) -> str:
    short = name.rpartition(".")[2]
    return f"[{short}](#{short.lower()})" if name.startswith(".goqueue.") else f"`{name.removeprefix('.')}`"


def _enum(enum: Any, path: tuple[int, ...], comments: Comments) -> str:
    lines = [f"### {enum.name}\n", comments.get(path, "") + "\n", "| value | number | |", "|---|---:|---|"]
    for at, value in enumerate(enum.value):
        lines.append(f"| `{value.name}` | {value.number} | {comments.get((*path, 2, at), '')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page(), encoding="utf-8")
