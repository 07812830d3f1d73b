"""Print the version of a release, if the tag is one and the build agrees: `release_version.py v1.4.0`."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """A tag that is not a version, or that is not what the build calls itself, ends the release."""
    (tag,) = sys.argv[1:]
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        sys.exit(f"the tag {tag!r} is not a version: write it as v1.4.0 or v1.4.0rc1")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    if spec is None or spec.loader is None:
        sys.exit("hatch_build.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built = module.version()
    if built != tag.removeprefix("v"):
        sys.exit(f"the tag is {tag}, but a build of this tree is {built}: check out the tag, with its history")
    print(built)


if __name__ == "__main__":
    main()
