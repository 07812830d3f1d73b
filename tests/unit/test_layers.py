"""The contract on imports covers the whole tree: what has no layer, nobody keeps in its place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import goqueue

ROOT = Path(__file__).parents[2]
PACKAGE = Path(goqueue.__file__).parent


def contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = [one for one in settings["tool"]["importlinter"]["contracts"] if one["name"] == name]
    return found


def test_every_package_and_module_has_a_layer() -> None:
    layers = contract("Imports point down")["layers"]
    layered = {name.strip().removeprefix("goqueue.") for layer in layers for name in layer.split("|")}
    there = {one.stem for one in PACKAGE.glob("*.py") if one.stem != "__init__"}
    there |= {one.parent.name for one in PACKAGE.glob("*/__init__.py")}
    assert there - layered == set(), "give them a layer in pyproject.toml, under 'Imports point down'"
    assert layered - there == set(), "they are gone: remove them from pyproject.toml"


def test_every_folder_says_what_lives_in_it() -> None:
    silent = [
        str(one.relative_to(PACKAGE))
        for one in PACKAGE.rglob("__init__.py")
        if not one.read_text().lstrip().startswith('"""')
    ]
    assert silent == []


def test_every_state_machine_is_held_to_the_rule_of_the_cores() -> None:
    """By name: whoever writes a new one calls it `machine`, and what it imports is a core as well."""
    assert "goqueue.**.machine" in contract("Cores do no I/O")["source_modules"]
    assert not contract("Cores do no I/O").get("allow_indirect_imports")
    assert len(list(PACKAGE.rglob("machine.py"))) >= 4
