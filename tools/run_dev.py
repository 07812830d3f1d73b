"""A broker for development: it is started again whenever a source file changes.

python tools/run_dev.py [options of `goqueue server`]
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
POLL_SECONDS = 0.5


def main() -> None:
    """Run until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run([sys.executable, "-X", "dev", "-m", "goqueue", "server", *sys.argv[1:]], SOURCES)


def run(command: list[str], sources: Path, wait: Callable[[float], None] = time.sleep) -> None:
    """Keep the command running, with the sources as they are now."""
    seen = state(sources)
    process = subprocess.Popen(command)
    try:
        while True:
            wait(POLL_SECONDS)
            if (now := state(sources)) == seen:
                continue
            changed = sorted(str(path.relative_to(sources)) for path, _ in now ^ seen)
            print(f"-- changed: {', '.join(dict.fromkeys(changed))}; starting again", flush=True)
            seen = now
            stop(process)
            process = subprocess.Popen(command)
    except KeyboardInterrupt:
        print("-- stopped", flush=True)
    finally:
        stop(process)


def state(sources: Path) -> set[tuple[Path, int]]:
    """Every source file with the time of its last change."""
    return {(path, path.stat().st_mtime_ns) for path in sources.rglob("*.py")}


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it cleanly, if it has not ended by an error of its own."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait()


if __name__ == "__main__":
    main()
