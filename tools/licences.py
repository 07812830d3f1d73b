"""Every package that GoQueue or one of its extras brings has a licence that we may ship beside.

    python tools/licences.py [--extra NAME ...] [--list]

Licences are read from the metadata of what is installed. A package whose licence is not in the table below, or that
names none, fails the check: look at it, then add the licence here or the package to `LOOKED_UP` with its source.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib import metadata

from packaging.requirements import Requirement

ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "HPND", "ISC", "LGPL-2.1-or-later",
    "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib",
}  # fmt: skip
# Words of free text and of classifiers -> what they mean.
_WORDS = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "3 clause bsd license": "BSD-3-Clause",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license iscl": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 mpl 2.0": "MPL-2.0",
    "mpl 2.0": "MPL-2.0",
    "psf": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense unlicense": "Unlicense",
}
# Packages whose metadata does not say it in a way that a program can read.
LOOKED_UP = {
    # Installed beside us from its own package, unmodified and replaceable, as its licence asks.
    "crc32c": "LGPL-2.1-or-later",
}


def main() -> None:
    """Check the closure of the chosen extras; the end code counts as the verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", action="append", default=[], help="check what this extra brings too")
    parser.add_argument("--list", action="store_true", help="show every package with its licence")
    arguments = parser.parse_args()
    found = {name: licence(name) for name in sorted(closure("goqueue", frozenset(arguments.extra)) - {"goqueue"})}
    if arguments.list:
        for name, text in found.items():
            print(f"{name:<28} {metadata.version(name):<16} {text}")
    problems = [f"{name}: {text or 'names no licence'}" for name, text in found.items() if not allowed(text)]
    if problems:
        sys.exit("licences that nobody has looked at:\n  " + "\n  ".join(problems))
    print(f"licences: {len(found)} packages, all allowed")


def closure(name: str, extras: frozenset[str]) -> set[str]:
    """The package and all that it needs, as installed here; what is not installed was not needed on this system."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(name, extras)]
    while todo:
        package, wanted = todo.pop()
        if (package, wanted) in seen:
            continue
        try:
            lines = metadata.requires(package) or []
        except metadata.PackageNotFoundError:
            if package == "goqueue" or wanted:
                raise
            continue
        seen.add((package, wanted))
        for line in lines:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": one}) for one in wanted | {""}):
                todo.append((canonical(need.name), frozenset(need.extras)))
    return {package for package, _ in seen}


def canonical(name: str) -> str:
    """One spelling for a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(name: str) -> str:
    """An SPDX expression where one can be told, otherwise what the package says."""
    if name in LOOKED_UP:
        return LOOKED_UP[name]
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return str(expression)
    classifiers = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier") or [] if "License ::" in text]
    classifiers = [text for text in classifiers if text != "OSI Approved"]
    text = about.get("License") or ""
    # Some put the whole text of the licence into the field.
    short = text if "\n" not in text and text not in {"", "UNKNOWN"} else ""
    return " AND ".join(_spdx(text) for text in classifiers) or _spdx(short)


def _spdx(text: str) -> str:
    words = " ".join(re.sub(r"[(),\"]", " ", text).replace("-", " ").lower().split())
    return _WORDS.get(words, text.removesuffix(" License") if words.endswith("license") else text)


def allowed(expression: str) -> bool:
    """One side of an OR suffices, of an AND both are needed."""
    if not expression:
        return False
    plain = expression.replace("(", "").replace(")", "")
    return any(all(one.strip() in ALLOWED for one in part.split(" AND ")) for part in plain.split(" OR "))


if __name__ == "__main__":
    main()
