"""The documentation site: its generated pages name all there is, and its checks find what is wrong."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from goqueue.cli.main import COMMANDS
from goqueue.errors.wire import wire_of
from goqueue.servers.http.app import ROUTES

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(scope="module")
def site() -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location("goqueue_site", TOOLS / "build_site.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


@pytest.fixture(scope="module")
def pages(site: ModuleType) -> dict[str, str]:
    made: dict[str, str] = site.pages()
    return made


def test_every_command_is_on_the_page_of_the_command_line(pages: dict[str, str]) -> None:
    page = pages["cli.md"]

    assert all(f"## goqueue {name}" in page for name in COMMANDS)
    assert "## goqueue backup create\n" in page
    assert "| `--data-dir` | required | The broker's data directory, on this machine. |" in page


def test_every_route_is_on_the_page_of_http(pages: dict[str, str]) -> None:
    for route in ROUTES:
        if route.path not in {"/", "/docs", "/openapi.json"}:
            assert f"`{route.method} {route.path}`" in pages["http.md"]


def test_every_series_is_on_the_page_of_metrics(pages: dict[str, str]) -> None:
    assert "| `goqueue_broker_messages_published_total` | counter | Messages stored. |" in pages["metrics.md"]
    assert pages["metrics.md"].count("\n| `") > 30


def test_every_error_is_on_the_page_of_errors(pages: dict[str, str]) -> None:
    from goqueue.errors import TopicNotFound

    code = wire_of(TopicNotFound("orders")).code
    assert f"| `{code}` | `TopicNotFound` |" in pages["errors.md"]


def test_every_page_of_the_documentation_has_its_place_in_the_site(
    site: ModuleType, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(site, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(site, "pages", dict)

    site.write_sources()

    assert (tmp_path / "docs" / "index.md").exists()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<script src="https://cdn.example.org/x.js"></script>', "index.html loads https://cdn.example.org/x.js"),
        ('<img src="//cdn.example.org/x.png">', "index.html loads //cdn.example.org/x.png"),
        ('<link rel="stylesheet" href="https://fonts.example.org/a">', "index.html loads https://fonts.example.org/a"),
        ('<a href="gone.html">x</a>', "index.html links to gone.html, which is not there"),
        ('<a href="other.html#nowhere">x</a>', "index.html links to other.html#nowhere, and there is no such heading"),
    ],
)
def test_a_load_from_elsewhere_and_a_link_to_nowhere_are_problems(
    site: ModuleType, tmp_path: Path, body: str, problem: str
) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "other.html").write_text('<h1 id="here">x</h1>')

    assert site.check(tmp_path) == [problem]


def test_a_good_page_has_no_problems(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<script src="assets/x.js"></script><a href="other.html#here">x</a><a href="https://example.org">y</a>'
        '<link rel="canonical" href="https://example.org/">'
    )
    (tmp_path / "other.html").write_text('<h1 id="here">x</h1>')

    assert site.check(tmp_path) == []


def test_sites_of_several_versions_stand_side_by_side_and_the_newest_comes_first(
    site: ModuleType, tmp_path: Path
) -> None:
    built, sites = tmp_path / "site", tmp_path / "sites"
    built.mkdir()
    sites.mkdir()
    for version in ("0.9.1", "v0.10.0", "0.2.0.dev3", "0.10.1"):
        (built / "index.html").write_text(version)
        versions = site.add_version(version, built, sites)
    assert versions == ["0.10", "0.9", "0.2"]
    assert (sites / "0.10" / "index.html").read_text() == "0.10.1"
    rows = json.loads((sites / "versions.json").read_text())
    assert [(row["version"], row["aliases"]) for row in rows] == [("0.10", ["latest"]), ("0.9", []), ("0.2", [])]
    assert "url=0.10/index.html" in (sites / "index.html").read_text()
    with pytest.raises(SystemExit, match="not a version"):
        site.add_version("../up", built, sites)
