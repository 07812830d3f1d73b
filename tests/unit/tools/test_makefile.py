"""The verbs that the requirements name are there, each says what it does, and CI runs nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = [
    "build",
    "build-goqueue",
    "build-cli",
    "build-admin",
    "test",
    "test-cover",
    "test-bench",
    "test-race",
    "lint",
    "fmt",
    "vet",
    "check",
    "vuln",
    "docker",
    "docker-push",
    "docker-debug",
    "docker-compose-up",
    "docker-compose-down",
    "release-dry",
    "release-check",
    "run",
    "run-dev",
    "clean",
    "install-tools",
    "version",
    "help",
]


def listed() -> set[str]:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  make (\S+)  +\S", shown, re.MULTILINE))


def test_help_lists_every_verb_that_is_named_and_more_than_thirty() -> None:
    verbs = listed()

    assert set(NAMED) <= verbs
    assert len(verbs) >= 30


@pytest.mark.parametrize("verb", NAMED)
def test_every_verb_can_be_planned(verb: str) -> None:
    planned = subprocess.run(["make", "-n", verb], cwd=ROOT, capture_output=True, text=True, check=False)

    assert planned.returncode == 0, planned.stderr
    assert planned.stdout


def test_a_verb_is_run_although_a_file_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "version").touch()
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())

    planned = subprocess.run(["make", "-n", "version"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert "hatch_build" in planned.stdout
