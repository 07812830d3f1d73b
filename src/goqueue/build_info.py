"""What is installed: version, commit and build time, from the package's metadata and written nowhere twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata

# Written by hatch_build.py. An installation that another tool made has no such file.
_FACTS = "extra_metadata/build.json"
_SHORT = 8


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """Facts about a build; `commit` and `built` are empty where the build did not know them."""

    version: str
    commit: str = ""
    built: str = ""

    @property
    def origin(self) -> str:
        """As in `commit 1a2b3c4d, built 2026-11-17T12:00:00Z`."""
        facts = [f"commit {self.commit[:_SHORT]}"] if self.commit else []
        return ", ".join([*facts, f"built {self.built}"] if self.built else facts)


def build_info() -> BuildInfo:
    """The facts about the installed package."""
    distribution = metadata.distribution("goqueue")
    facts = json.loads(distribution.read_text(_FACTS) or "{}")
    return BuildInfo(distribution.version, facts.get("commit", ""), facts.get("built", ""))
