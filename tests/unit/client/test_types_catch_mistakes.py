"""Type checkers catch a misspelt keyword, an unknown name and a value of a wrong type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MISTAKES = HERE / "mistakes.py"
MARKED = {number for number, line in enumerate(MISTAKES.read_text().splitlines(), 1) if line.endswith("# mistake")}


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110).stdout


def test_mypy_finds_each_mistake_and_nothing_else(tmp_path):
    output = run(sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(MISTAKES))

    found = {int(number) for number in re.findall(r"mistakes\.py:(\d+): error", output)}
    assert found == MARKED, output


def test_pyright_finds_each_mistake_and_nothing_else(tmp_path):
    pytest.importorskip("basedpyright")
    settings = {
        "include": [str(MISTAKES)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    output = run(
        sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)
    )

    report = json.loads(output)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in report if one["severity"] == "error"}
    assert found == MARKED, output
