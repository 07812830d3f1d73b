"""`--reload`: the same command in a process of its own, which is stopped and started when a source file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_LOOK_EVERY_S = 0.5
_IGNORED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__"})


def run_reloading(folder: Path) -> int:
    """Run this command without `--reload` again and again; returns its last exit code."""
    command = [sys.executable, "-m", "goqueue", *(one for one in sys.argv[1:] if one != "--reload")]
    stopping = False

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    while True:
        seen = modified(folder)
        # A group of its own: Ctrl-C reaches this process alone, which passes it on.
        process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own command line
        changed = False
        while not (stopping or changed):
            time.sleep(_LOOK_EVERY_S)
            # A worker that failed, such as with a syntax error, waits for the next change.
            changed = modified(folder) != seen
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait()
        if stopping:
            return code
        print(f"goqueue: a file below {folder} changed, the worker starts again", file=sys.stderr)


def modified(folder: Path) -> dict[str, int]:
    """When each source file below a folder was changed."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if one not in _IGNORED]
        for name in names:
            if name.endswith(".py"):
                path = Path(place) / name
                try:
                    found[str(path)] = path.stat().st_mtime_ns
                except FileNotFoundError:
                    # An editor replaces it at this moment.
                    continue
    return found
