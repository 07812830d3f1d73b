"""Version, commit and build time: from git, from an sdist, from the environment, and as the programs show them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from goqueue.build_info import BuildInfo, build_info

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hatch_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_build_of_a_tag_has_the_tags_version(hatch_build: ModuleType, repository: Path) -> None:
    git(repository, "tag", "v1.4.0")

    facts = hatch_build.facts(repository, {})

    assert facts["version"] == "1.4.0"
    assert facts["commit"] == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize(("tag", "following"), [("v1.4.0", "1.4.1.dev1"), ("v2.0.0rc1", "2.0.0rc2.dev1")])
def test_a_commit_after_a_tag_comes_before_the_next_version(
    hatch_build: ModuleType, repository: Path, tag: str, following: str
) -> None:
    git(repository, "tag", tag)
    git(repository, "commit", "-qm", "two", "--allow-empty")

    found = hatch_build.facts(repository, {})["version"]

    assert found == f"{following}+g{git(repository, 'rev-parse', '--short=8', 'HEAD')}"


def test_a_changed_tree_is_no_release(hatch_build: ModuleType, repository: Path) -> None:
    git(repository, "tag", "v1.4.0")
    (repository / "file").write_text("two")

    found = hatch_build.facts(repository, {})["version"]

    assert found.startswith("1.4.1.dev0+g")
    assert found.endswith(".dirty")


def test_a_clone_without_tags_counts_its_commits(hatch_build: ModuleType, repository: Path) -> None:
    git(repository, "tag", "not-a-version")

    found = hatch_build.facts(repository, {})["version"]

    assert found == f"0.1.0.dev1+g{git(repository, 'rev-parse', '--short=8', 'HEAD')}"


def test_a_build_without_git_history_has_a_fallback(hatch_build: ModuleType, tmp_path: Path) -> None:
    assert hatch_build.facts(tmp_path, {"SOURCE_DATE_EPOCH": "0"}) == {
        "version": "0.1.0.dev0",
        "commit": "",
        "built": "1970-01-01T00:00:00Z",
    }


def test_a_folder_inside_another_repository_does_not_take_its_version(
    hatch_build: ModuleType, repository: Path
) -> None:
    git(repository, "tag", "v9.9.9")
    (repository / "unpacked").mkdir()

    assert hatch_build.facts(repository / "unpacked", {})["version"] == "0.1.0.dev0"


def test_without_the_program_git_there_is_the_fallback(
    hatch_build: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "tag", "v1.4.0")
    monkeypatch.setenv("PATH", "/nowhere")

    assert hatch_build.facts(repository, {})["version"] == "0.1.0.dev0"


def test_a_wheel_made_from_an_sdist_has_the_facts_of_the_sdist(hatch_build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "build_info.json").write_text(json.dumps({"version": "1.4.0", "commit": "c0ffee", "built": "then"}))

    facts = hatch_build.facts(tmp_path, {"SOURCE_DATE_EPOCH": "1700000000"})

    assert facts == {"version": "1.4.0", "commit": "c0ffee", "built": "2023-11-14T22:13:20Z"}


def test_a_container_build_is_told_the_facts(hatch_build: ModuleType, tmp_path: Path) -> None:
    facts = hatch_build.facts(tmp_path, {"BUILD_VERSION": "v1.4.0", "BUILD_COMMIT": "c0ffee"})

    assert (facts["version"], facts["commit"]) == ("1.4.0", "c0ffee")


def test_the_installed_package_knows_its_version() -> None:
    assert build_info().version == metadata.version("goqueue")


def test_an_installation_without_the_facts_still_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda self, name: None if "build" in name else VERSION)

    assert build_info() == BuildInfo("1.2.3")
    assert build_info().origin == ""


VERSION = "Metadata-Version: 2.4\nName: goqueue\nVersion: 1.2.3\n"


def test_the_origin_names_what_is_known() -> None:
    assert BuildInfo("1", "0123456789abcdef", "2026-01-02T03:04:05Z").origin == (
        "commit 01234567, built 2026-01-02T03:04:05Z"
    )
    assert BuildInfo("1", "", "2026-01-02T03:04:05Z").origin == "built 2026-01-02T03:04:05Z"
    assert BuildInfo("1", "0123456789abcdef").origin == "commit 01234567"


def test_the_package_is_a_program_too() -> None:
    as_module = subprocess.run([sys.executable, "-m", "goqueue", "version"], capture_output=True, text=True, check=True)
    program = Path(sys.executable).parent / "goqueue"
    as_program = subprocess.run([program, "version"], capture_output=True, text=True, check=True)

    assert as_module.stdout == as_program.stdout
    assert f"goqueue {metadata.version('goqueue')} (Python 3." in as_module.stdout
    assert build_info().origin in as_module.stdout
