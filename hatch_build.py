"""What a build knows about itself: version from the git tag, commit, and build time.

Hatchling evaluates `version()` for the package's version and runs `BuildInfoHook` for every sdist and wheel.
The facts go into the wheel's metadata (`extra_metadata/build.json` of the .dist-info folder), where
`goqueue.build_info` reads them, and into the root of an sdist, from which a wheel can be built without git.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # the tests of the functions below need no hatchling
    BuildHookInterface = object

# What is being worked on while there is no tag yet, and the version of a build without git history.
FIRST_RELEASE = "0.1.0"
INFO_FILE = "build_info.json"
_ROOT = Path(__file__).resolve().parent
_TAG = re.compile(r"v(\d+\.\d+\.)(\d+)(?:(a|b|rc)(\d+))?-(\d+)-g([0-9a-f]+)(-dirty)?")


def version() -> str:
    """The version of this build, as in `1.4.0` on a tag and `1.4.1.dev3+g1a2b3c4` three commits later."""
    return facts(_ROOT)["version"]


def facts(root: Path, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Version, commit and build time (UTC). A fact that cannot be found is an empty text."""
    given = os.environ if environment is None else environment
    kept = root / INFO_FILE
    if kept.exists():
        found: dict[str, str] = json.loads(kept.read_text(encoding="utf-8"))
    else:
        found = {"version": _from_git(root), "commit": _git(root, "rev-parse", "HEAD")}
    # A container is built without the .git folder, so its build is told what the folder would say.
    told = given.get("BUILD_VERSION", "").removeprefix("v")
    return {
        "version": told or found["version"] or f"{FIRST_RELEASE}.dev0",
        "commit": given.get("BUILD_COMMIT") or found["commit"],
        "built": _build_time(given.get("SOURCE_DATE_EPOCH", "")),
    }


def _build_time(epoch: str) -> str:
    seconds = int(epoch) if epoch else int(datetime.now(UTC).timestamp())
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _from_git(root: Path) -> str:
    described = _git(root, "describe", "--tags", "--match", "v[0-9]*", "--long", "--dirty", "--abbrev=8")
    found = _TAG.fullmatch(described)
    if found is None:
        # A clone without tags: the count of commits orders the builds among themselves.
        count, commit = _git(root, "rev-list", "--count", "HEAD"), _git(root, "rev-parse", "--short=8", "HEAD")
        return f"{FIRST_RELEASE}.dev{count}+g{commit}" if count else ""
    series, patch, stage, number, distance, commit, dirty = found.groups()
    if distance == "0" and not dirty:
        return series + patch + (f"{stage}{number}" if stage else "")
    following = f"{patch}{stage}{int(number) + 1}" if stage else str(int(patch) + 1)
    return f"{series}{following}.dev{distance}+g{commit}" + (".dirty" if dirty else "")


def _git(root: Path, *arguments: str) -> str:
    """What git says, or an empty text: without git, without a repository, or inside somebody else's repository."""
    if not (root / ".git").exists():
        return ""
    try:
        finished = subprocess.run(  # noqa: S603
            ["git", "-C", str(root), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return finished.stdout.strip() if finished.returncode == 0 else ""


class BuildInfoHook(BuildHookInterface):  # type: ignore[misc, valid-type, unused-ignore]
    """Put the facts into what is being built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Hand hatchling a file with the facts: metadata of a wheel, an ordinary file of an sdist."""
        self._folder = tempfile.TemporaryDirectory()
        written = Path(self._folder.name) / "build.json"
        written.write_text(json.dumps(facts(Path(self.root))) + "\n", encoding="utf-8")
        if self.target_name == "wheel":
            build_data["extra_metadata"][str(written)] = "build.json"
        else:
            build_data["force_include"][str(written)] = INFO_FILE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the draft."""
        self._folder.cleanup()
