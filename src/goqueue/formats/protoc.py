"""From `.proto` text to a descriptor, by the protoc that comes with grpcio-tools.

protoc runs inside the calling process and writes its complaints to file descriptor 2, which is turned aside
meanwhile. The broker calls this in the schema worker only: protoc is C++ and cannot be interrupted.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from goqueue.errors import InvalidSchema
from goqueue.formats.libraries import library


def compile_proto(name: str, text: str, imports: Iterable[Any]) -> Any:
    """The FileDescriptorProto of a text. `imports` are the descriptors of all files that it may import."""
    protoc = library("grpc_tools.protoc")
    descriptors = library("google.protobuf.descriptor_pb2")
    with tempfile.TemporaryDirectory(prefix="goqueue-protoc-") as place:
        folder = Path(place)
        source = folder / "source" / name
        source.parent.mkdir(parents=True)
        source.write_text(text, encoding="utf-8")
        known = folder / "known"
        known.write_bytes(descriptors.FileDescriptorSet(file=list(imports)).SerializeToString())
        target = folder / "target"
        arguments = [
            "protoc",
            f"--proto_path={source.parent}",
            f"--descriptor_set_in={known}",
            f"--descriptor_set_out={target}",
            name,
        ]
        complaints = folder / "complaints"
        status = _run(protoc.main, arguments, complaints)
        if status != 0:
            raise InvalidSchema(_reason(complaints.read_text("utf-8", "replace"), place), field="schema")
        return descriptors.FileDescriptorSet.FromString(target.read_bytes()).file[-1]


def _run(main: Any, arguments: list[str], complaints: Path) -> int:
    kept = os.dup(2)
    try:
        with complaints.open("wb") as file:
            os.dup2(file.fileno(), 2)
            return int(main(arguments))
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _reason(complaints: str, place: str) -> str:
    lines = [
        line for line in complaints.replace(f"{place}/source/", "").splitlines() if line and "warning:" not in line
    ]
    return re.sub(r"\s+", " ", "; ".join(lines[:5])) or "protoc refuses the schema and does not say why"
