"""Makes `src/goqueue/protos` from `proto/`: `make proto`.

The generated modules lie in a package of ours, since `goqueue.v1`, which the protos name, would be a second
`goqueue` beside the project's own. So the imports among them are rewritten; nothing else is changed.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
TARGET = ROOT / "src" / "goqueue" / "protos"
_IMPORT = re.compile(r"^from goqueue\.v1 import ", re.MULTILINE)
# Written by hand.
_KEPT = frozenset({"__init__.py"})


def generate() -> Mapping[str, str]:
    """The generated modules, by file name."""
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    protos = sorted(str(one) for one in SOURCES.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as made:
        outputs = [f"--{kind}_out={made}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"-I{SOURCES}", f"-I{well_known}", *outputs, *protos]):
            sys.exit("protoc refused the protos: see above")
        return {one.name: _own(one.read_text()) for one in sorted(Path(made, "goqueue", "v1").iterdir())}


def differences() -> list[str]:
    """Names of files that are not as they would be generated."""
    wanted = generate()
    present = {one.name: one.read_text() for one in TARGET.glob("*.py*") if one.name not in _KEPT}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def _own(text: str) -> str:
    return _IMPORT.sub("from goqueue.protos import ", text)


def main() -> None:
    """Write the modules, and remove those whose proto is gone."""
    wanted = generate()
    TARGET.mkdir(exist_ok=True)
    for old in TARGET.glob("*.py*"):
        if old.name not in wanted and old.name not in _KEPT:
            old.unlink()
    for name, text in wanted.items():
        TARGET.joinpath(name).write_text(text)


if __name__ == "__main__":
    main()
