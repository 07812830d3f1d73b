"""Show that a gate can fail: plant a defect in a copy of the tree, run the Makefile verb, and expect its complaint.

    python tools/canary.py lint security ...      (no name: all gates)

A job that cannot fail stays green for years. So every gate of CI has at least one defect here, and it counts only
when the verb fails AND its output holds the expected words: a verb that fails for another reason (no network, a missing
tool) proves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = Path(sys.executable).parent.parent
CODE = "src/goqueue/canary.py"
HEAD = '"""A planted defect."""\n\nfrom __future__ import annotations\n\n'


@dataclass(frozen=True)
class Canary:
    """A defect: how to plant it, the verb that must refuse it, and the words of the refusal."""

    gate: str
    defect: str
    plant: Callable[[Path], None]
    verb: str
    complaint: str


def write(path: str, text: str) -> Callable[[Path], None]:
    """Plant a new file."""

    def plant(tree: Path) -> None:
        (tree / path).write_text(text, encoding="utf-8")

    return plant


def change(path: str, old: str, new: str) -> Callable[[Path], None]:
    """Plant a change in a file; it must really be one."""

    def plant(tree: Path) -> None:
        text = (tree / path).read_text(encoding="utf-8")
        if old not in text:
            sys.exit(f"canary: {path} no longer holds {old!r}; plant another defect")
        (tree / path).write_text(text.replace(old, new), encoding="utf-8")

    return plant


def remove(path: str) -> Callable[[Path], None]:
    """Plant the absence of a file."""
    return lambda tree: (tree / path).unlink()


CANARIES = (
    Canary("lint", "an import that nobody uses", write(CODE, HEAD + "import os\n"), "lint", "F401"),
    Canary(
        "lint",
        "a file that is not formatted",
        write(CODE, HEAD + "ONE = [1,2]\n"),
        "lint",
        "would be reformatted|Would reformat",
    ),
    Canary("lint", "a wrong type", write(CODE, HEAD + 'ONE: int = "one"\n'), "lint", r"\[assignment\]"),
    Canary(
        "lint",
        "a codec that knows the broker",
        write("src/goqueue/codec/canary.py", HEAD + "from goqueue.broker import topics\n\nTOPICS = topics\n"),
        "lint",
        "goqueue.codec.canary -> goqueue.broker",
    ),
    Canary("lint", "a word that is misspelled", write("docs/canary.md", "rec" + "ieve\n"), "lint", "==> receive"),
    Canary(
        "workflows",
        "a workflow without a machine",
        write(".github/workflows/canary.yml", "on: push\njobs:\n  one:\n    steps:\n      - run: make test\n"),
        "lint-workflows",
        '"runs-on" section is missing',
    ),
    Canary(
        "test",
        "a test that fails",
        write("tests/unit/test_canary.py", "def test_canary():\n    assert 1 + 1 == 3\n"),
        "test TESTS=tests/unit/test_canary.py",
        "test_canary - assert",
    ),
    Canary(
        "test",
        "a warning",
        write(
            "tests/unit/test_canary.py",
            'import warnings\n\n\ndef test_canary():\n    warnings.warn("old")  # noqa: B028\n',
        ),
        "test TESTS=tests/unit/test_canary.py",
        "UserWarning: old",
    ),
    Canary(
        "security",
        "a shell",
        write(
            CODE, HEAD + "import subprocess\n\n\ndef run(text: str) -> None:\n    subprocess.call(text, shell=True)\n"
        ),
        "security",
        "S602",
    ),
    Canary(
        "security",
        "a weak hash that only bandit looks at",
        write(CODE, HEAD + 'import hashlib\n\nONE = hashlib.md5(b"")  # noqa: S324\n'),
        "security",
        "B324",
    ),
    Canary(
        "release",
        "a wheel without a module",
        remove("src/goqueue/__main__.py"),
        "release-check",
        "lacks goqueue/__main__",
    ),
    Canary(
        "release",
        "a package that needs what it does not name",
        change("pyproject.toml", '  "cronsim>=2.6,<3",\n', ""),
        "release-check",
        "No module named 'cronsim'",
    ),
    Canary(
        "proto",
        "a message shape that Kafka does not have",
        change("src/goqueue/codec/kafka/messages.txt", "  acks int16 *\n", "  acks int32 *\n"),
        "proto-check",
        "FAILED tests/unit/codec/kafka/test_messages.py|ERROR tests/unit/codec/kafka/test_messages.py",
    ),
    Canary(
        "proto",
        "a field that changed its type",
        change("proto/goqueue/v1/common.proto", "int64 offset = 3;", "string offset = 3;"),
        "proto-check",
        "FAILED tests/unit/tools/test_protos.py",
    ),
    Canary(
        "licences",
        "a licence that nobody has looked at",
        change("tools/licences.py", '"MIT", "MIT-0"', '"MIT-0"'),
        "licences",
        "licences that nobody has looked at",
    ),
    Canary(
        "vuln",
        "a package with a known vulnerability",
        write("constraints.txt", "urllib3==1.24.1\n"),
        "vuln",
        "CVE-|GHSA-|PYSEC-",
    ),
    Canary(
        "docs",
        "a link to a page that is not there",
        change("docs/howto/bulk-jobs.md", "](backup.md)", "](gone.md)"),
        "docs-site",
        "gone.md",
    ),
    Canary(
        "deploy",
        "a chart that Kubernetes refuses",
        change("deploy/helm/goqueue/templates/statefulset.yaml", "replicas: {{", "replicas: many{{"),
        "test-deploy",
        "FAILED tests/deploy/test_chart.py",
    ),
)


def main() -> None:
    """Run the canaries of the named gates; every one that sings is a failure."""
    gates = set(sys.argv[1:]) or {one.gate for one in CANARIES}
    if unknown := gates - {one.gate for one in CANARIES}:
        sys.exit(f"canary: no such gate: {', '.join(sorted(unknown))}")
    silent = [one for one in CANARIES if one.gate in gates and not refused(one)]
    if silent:
        sys.exit("these gates did not refuse their defect: " + "; ".join(f"{one.gate}: {one.defect}" for one in silent))


def refused(canary: Canary) -> bool:
    """Whether the verb fails on the defect, with the words that it should fail with."""
    with tempfile.TemporaryDirectory(prefix="goqueue-canary-") as scratch:
        tree = Path(scratch) / "tree"
        copy(tree)
        canary.plant(tree)
        done = make(tree, canary.verb)
    shown = done.stdout + done.stderr
    passed = done.returncode != 0 and re.search(canary.complaint, shown) is not None
    print(f"- {canary.gate}: {canary.defect}: {'refused' if passed else 'NOT REFUSED'}", flush=True)
    if not passed:
        print(f"exit code {done.returncode}, expected the words {canary.complaint!r} in:\n{shown[-4000:]}", flush=True)
    return passed


def copy(tree: Path) -> None:
    """The files that git knows or would take, without the environment and the history."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    # Some tools look for the repository's root.
    subprocess.run(["git", "init", "--quiet", str(tree)], check=True)


def make(tree: Path, verb: str) -> subprocess.CompletedProcess[str]:
    """Run the verb in the copy, with this environment's packages and the copy's sources."""
    # The environment is that of the original: it must not be installed anew, from the copy.
    kept = [f"--assume-old={VENV}/{name}" for name in (".installed", ".ready", ".tools")]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "MAKEFLAGS": ""}
    return subprocess.run(
        ["make", *kept, f"VENV={VENV}", *verb.split()],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    main()
