"""`goqueue ...` in a process group of its own: it can be watched, killed with all its children, and run again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Where others want the processors too, TEST_PATIENCE=4 tells a run that is slow from one that hangs.
RUN_SECONDS_MAX = 150.0 * float(os.environ.get("TEST_PATIENCE", "1"))
# A run ends before the JVM's second compiler has paid for itself: it takes 22 seconds of processor and not 32.
_QUICK_START = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
GOQUEUE = Path(sys.executable).parent / "goqueue"


class Command:
    """One run of a command."""

    def __init__(self, home: Path, *words: object, **environment: str) -> None:
        self.log = home / "command.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(GOQUEUE), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **_QUICK_START, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        """Its exit code."""
        return self._process.wait(RUN_SECONDS_MAX)

    def until(self, condition: Callable[[], object], *, every_s: float = 0.005) -> None:
        """Wait until something is so; the command must not have ended before."""
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while not condition():
            assert not self.ended, f"it ended too early:\n{self.output}"
            assert time.monotonic() < deadline, f"nothing happened:\n{self.output}"
            time.sleep(every_s)

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and every worker."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


def run(home: Path, *words: object) -> None:
    """Run a command that must succeed."""
    command = Command(home, *words)
    try:
        assert command.wait() == 0, command.output
    finally:
        command.kill()


def children_of(pid: int) -> Iterator[tuple[int, str]]:
    """The processes below this one, each with its command line."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while fresh := {child for child, parent in parents.items() if parent in found} - found:
        found |= fresh
    for child in sorted(found - {pid}):
        with contextlib.suppress(OSError):
            yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
