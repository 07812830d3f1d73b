"""The protos are linted, break nobody who uses the released ones, and the generated code is current."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUF = Path(sys.executable).parent / "buf"


def _tool(name: str) -> object:
    spec = util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _buf(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BUF), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_generated_code_is_what_the_protos_say() -> None:
    assert _tool("make_protos").differences() == [], "run `make proto`"  # type: ignore[attr-defined]


def test_the_reference_page_is_what_the_protos_say() -> None:
    page = _tool("grpc_page")
    assert page.PAGE.read_text() == page.page(), "run `make proto`"  # type: ignore[attr-defined]


def test_the_protos_pass_the_linter_and_are_formatted() -> None:
    linted = _buf("lint")
    assert (linted.returncode, linted.stdout) == (0, "")
    assert _buf("format", "--diff").stdout == "", "run `make proto`"


def test_the_protos_break_nobody_who_uses_the_released_ones() -> None:
    checked = _buf("breaking", "--against", "proto/released.binpb")
    assert (checked.returncode, checked.stdout) == (0, "")


def test_a_breaking_change_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "proto" / "goqueue" / "v1"
    changed.mkdir(parents=True)
    for one in (ROOT / "proto" / "goqueue" / "v1").glob("*.proto"):
        changed.joinpath(one.name).write_text(one.read_text().replace("int64 offset = 3;", "string offset = 3;"))
    tmp_path.joinpath("buf.yaml").write_text((ROOT / "buf.yaml").read_text())
    image = ROOT / "proto" / "released.binpb"
    checked = subprocess.run(
        [str(BUF), "breaking", "--against", str(image)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode != 0
    assert "offset" in checked.stdout


@pytest.mark.parametrize(
    "module",
    [
        "goqueue.protos.common_pb2",
        "goqueue.protos.publish_pb2_grpc",
        "grpc_health.v1.health_pb2",
        "google.rpc.status_pb2",
        "pyspark.sql.connect.proto.base_pb2",
    ],
)
def test_protos_of_all_extras_load_with_one_protobuf(module: str) -> None:
    import_module(module)
