"""The workflows: what they promise can be read from them; actionlint (`make lint-workflows`) checks their syntax."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[Any, Any]:
    parsed: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return parsed


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_ci_has_the_seven_jobs() -> None:
    assert set(workflow("ci.yml")["jobs"]) == {
        "lint", "test", "security", "build", "docker", "proto", "dependency-review",
    }  # fmt: skip


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_nothing_is_allowed_to_fail(path: Path) -> None:
    code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))

    assert "continue-on-error" not in code
    assert "|| true" not in code
    assert "set +e" not in code


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_workflow_asks_for_few_rights_and_ends_in_time(path: Path) -> None:
    parsed = workflow(path.name)

    assert parsed["permissions"] == {"contents": "read"}
    assert "concurrency" in parsed
    assert all("timeout-minutes" in job for job in parsed["jobs"].values())


@pytest.mark.parametrize("name", ["ci.yml", "nightly.yml"])
def test_every_job_runs_verbs_of_the_makefile(name: str) -> None:
    verbs = set(re.findall(r"^([a-z-]+)(?= |:)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow(name)["jobs"].values():
        told = [command for command in commands(job) if "make" in command.split()]
        assert told
        wanted = {
            word for command in told for word in command.split("make ", 1)[1].split() if re.fullmatch("[a-z-]+", word)
        }
        assert wanted - {"workflows", "vuln"} <= verbs | {"test"}
        others = [command for command in commands(job) if command not in told]
        assert all(command.startswith("sudo apt-get update") for command in others)


def test_every_verb_of_the_nightly_matrix_exists() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(workflow("nightly.yml")["jobs"]["long"]["strategy"]["matrix"]["verb"]) <= verbs


def test_every_gate_of_ci_has_a_canary() -> None:
    canary = (ROOT / "tools" / "canary.py").read_text()
    gates = set(re.findall(r'Canary\(\s*"([a-z]+)"', canary))
    run = {
        gate
        for job in workflow("ci.yml")["jobs"].values()
        for command in commands(job)
        if command.startswith("make canary")
        for gate in re.findall(r"[a-z]+", command.partition("GATES=")[2])
    }

    assert run == gates


def test_the_matrix_has_the_versions_that_the_package_declares() -> None:
    declared = set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()))
    jobs = workflow("ci.yml")["jobs"]

    assert set(jobs["test"]["strategy"]["matrix"]["python"]) == declared
    assert set(jobs["build"]["strategy"]["matrix"]["python"]) == declared


def test_a_release_validates_before_it_builds_and_builds_before_it_publishes() -> None:
    jobs = workflow("release.yml")["jobs"]
    needs = {
        name: {job["needs"]} if isinstance(job.get("needs"), str) else set(job.get("needs", []))
        for name, job in jobs.items()
    }

    assert workflow("release.yml")[True] == {"push": {"tags": ["v*"]}}
    assert needs["build"] == {"validate"}
    assert needs["github-release"] == {"build"}
    assert "github-release" in needs["package"] & needs["image"]
    image = next(step for step in jobs["image"]["steps"] if "build-push" in step.get("uses", ""))
    assert image["with"]["platforms"] == "linux/amd64,linux/arm64"


def test_the_draft_of_a_release_may_be_written() -> None:
    assert workflow("release-drafter.yml")["jobs"]["draft"]["permissions"]["contents"] == "write"


@pytest.mark.parametrize("tag", ["v1", "1.4.0", "v1.4.0-beta", "latest"])
def test_a_tag_that_is_not_a_version_ends_the_release(tag: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "release_version.py", tag], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "is not a version" in done.stderr


def test_a_tag_that_the_build_does_not_agree_with_ends_the_release() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "release_version.py", "v99.0.0"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "but a build of this tree is" in done.stderr


def test_the_repository_has_its_templates() -> None:
    for name in ("CODEOWNERS", "dependabot.yml", "pull_request_template.md", "release-drafter.yml"):
        assert (ROOT / ".github" / name).exists()
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(path.read_text())
