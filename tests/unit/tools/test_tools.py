"""The programs of the build: licences, the bill of materials, and the broker that is started again."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("", False),
    ],
)
def test_a_licence_is_allowed_when_one_choice_of_it_is(
    expression: str, verdict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tool("licences", monkeypatch).allowed(expression) is verdict


def test_the_licences_of_all_that_we_bring_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["licences.py", "--extra", "spark", "--extra", "lake"])

    tool("licences", monkeypatch).main()


def test_a_licence_that_nobody_has_looked_at_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    licences = tool("licences", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["licences.py"])
    monkeypatch.setitem(licences.LOOKED_UP, "aiohttp", "SSPL-1.0")

    with pytest.raises(SystemExit, match=r"aiohttp: SSPL-1\.0"):
        licences.main()


def test_the_closure_follows_what_packages_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tool("licences", monkeypatch).closure("goqueue", frozenset())

    assert {"goqueue", "aiohttp", "yarl", "idna"} <= found
    assert "pyspark" not in found


def test_the_bill_of_materials_lists_what_an_installation_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "goqueue-1.4.0-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "SHA256SUMS").touch()
    monkeypatch.setattr(sys, "argv", ["sbom.py", str(tmp_path)])

    tool("sbom", monkeypatch).main()

    (written,) = tmp_path.glob("*.sbom.json")
    bill = json.loads(written.read_text())
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/goqueue@1.4.0"
    assert {"aiohttp", "crc32c"} <= {one["name"] for one in bill["components"]}
    digest = hashlib.sha256(written.read_bytes()).hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text() == f"{digest}  {written.name}\n"


def test_the_broker_for_development_is_started_again_when_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, starts = tmp_path / "code.py", tmp_path / "starts"
    source.write_text("one = 1")
    # Stands for a broker: notes its start and stays.
    program = f"open({str(starts)!r}, 'a').write('started\\n'); import signal; signal.pause()"
    turns = 0

    def wait(_seconds: float) -> None:
        nonlocal turns
        turns += 1
        expected = min(turns, 2)
        while not starts.exists() or starts.read_text().count("started") < expected:
            time.sleep(0.01)
        if turns == 1:
            source.write_text("two = 22")
        if turns == 3:
            raise KeyboardInterrupt

    tool("run_dev", monkeypatch).run([sys.executable, "-c", program], tmp_path, wait)

    assert starts.read_text() == "started\nstarted\n"
    assert "changed: code.py; starting again" in capfd.readouterr().out


def test_the_page_on_installation_names_every_extra_and_what_it_brings() -> None:
    page = (TOOLS.parent / "docs" / "howto" / "install.md").read_text()
    project = tomllib.loads((TOOLS.parent / "pyproject.toml").read_text())["project"]
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.+?) \|", page, re.MULTILINE))

    assert set(rows) == set(project["optional-dependencies"])
    for extra in ("spark", "lake", "peers", "remote"):
        needs = {re.split(r"[\[<>=]", need)[0] for need in project["optional-dependencies"][extra]}
        assert needs == set(rows[extra].split(", "))
    for minor in (11, 12, 13, 14):
        assert f"3.{minor}" in page
        assert f"Programming Language :: Python :: 3.{minor}" in project["classifiers"]
