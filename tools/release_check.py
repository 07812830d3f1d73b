"""Build sdist and wheel, install the wheel into a clean environment, and use what was installed.

    python tools/release_check.py [--keep DIR] [--reproducible]

The wheel is built from the sdist, so a file that the sdist lacks is found here. The clean environment is outside of
this folder and Python runs isolated (`-I`) in it: nothing of the source tree can be imported by accident.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("goqueue", "goqueue-cli", "goqueue-admin")


def main() -> None:
    """Run every step; the first that fails ends the program with its message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="copy sdist, wheel and SHA256SUMS into this folder")
    parser.add_argument("--reproducible", action="store_true", help="build twice and compare the bytes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-release-") as scratch:
        sdist, wheel = build(Path(scratch) / "dist")
        check_contents(sdist, wheel)
        if arguments.reproducible:
            check_reproducible(Path(scratch), sdist, wheel)
        python = clean_environment(Path(scratch) / "env", wheel)
        smoke_test(python, Path(scratch) / "smoke")
        if arguments.keep:
            keep(arguments.keep, sdist, wheel)
    print(f"release check passed: {wheel.name}")


def build(target: Path, **environment: str) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it."""
    say(f"build sdist and wheel with Python {sys.version_info.major}.{sys.version_info.minor}")
    run([sys.executable, "-m", "build", "--outdir", str(target), str(ROOT)], quiet=True, **environment)
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """The wheel holds the packages and nothing else; the sdist can make a wheel without git."""
    say("check what is inside")
    names = zipfile.ZipFile(wheel).namelist()
    strangers = {name.partition("/")[0] for name in names} - {"goqueue", "pyspark_goqueue"}
    if not all(name.endswith(".dist-info") for name in strangers):
        sys.exit(f"the wheel holds more than the packages: {sorted(strangers)}")
    for wanted in ("goqueue/__main__.py", "goqueue/py.typed", "goqueue/codec/kafka/messages.txt"):
        if wanted not in names:
            sys.exit(f"the wheel lacks {wanted}")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("build_info.json", "hatch_build.py", "LICENSE", "README.md", "PKG-INFO"):
        if wanted not in inside:
            sys.exit(f"the sdist lacks {wanted}")


def check_reproducible(scratch: Path, sdist: Path, wheel: Path) -> None:
    """Two builds of the same commit and the same SOURCE_DATE_EPOCH are equal byte by byte."""
    say("build twice and compare")
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "1700000000")
    first = build(scratch / "first", SOURCE_DATE_EPOCH=epoch)
    second = build(scratch / "second", SOURCE_DATE_EPOCH=epoch)
    for one, other in zip(first, second, strict=True):
        if digest(one) != digest(other):
            sys.exit(f"{one.name} differs between two builds of the same commit")
    if {one.name for one in first} != {sdist.name, wheel.name}:
        sys.exit("two builds of the same commit have different versions")


def clean_environment(folder: Path, wheel: Path) -> Path:
    """A new virtual environment with the wheel, its dependencies, and pytest for the fixtures."""
    say("install the wheel into a clean environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pinned = ["-c", str(ROOT / "constraints.txt")]
    run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pinned, str(wheel), "pytest"])
    for program in PROGRAMS:
        if not (folder / "bin" / program).exists():
            sys.exit(f"the wheel did not install {program}")
    return python


def smoke_test(python: Path, folder: Path) -> None:
    """Use the installed package as a user would: server, client, Kafka client, fixtures."""
    folder.mkdir()
    shutil.copy(ROOT / "tools" / "smoke.py", folder)
    run([str(python), "-I", str(folder / "smoke.py"), str(folder)], cwd=folder)


def keep(folder: Path, *artifacts: Path) -> None:
    """Copy what was checked, with checksums that `sha256sum -c` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts:
        shutil.copy(artifact, folder)
    sums = "".join(f"{digest(artifact)}  {artifact.name}\n" for artifact in artifacts)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    say(f"kept in {folder}: {', '.join(artifact.name for artifact in artifacts)}")


def digest(path: Path) -> str:
    """The file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(command: list[str], *, cwd: Path = ROOT, quiet: bool = False, **environment: str) -> None:
    """Run a command; its failure is ours."""
    finished = subprocess.run(
        command, cwd=cwd, check=False, text=True, env={**os.environ, **environment}, capture_output=quiet
    )
    if finished.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{finished.stdout or ''}{finished.stderr or ''}")


def say(text: str) -> None:
    """One line per step, at once."""
    print(f"- {text}", flush=True)


if __name__ == "__main__":
    main()
