"""Disks of nodes that fill up, become slow, and are lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

SYNC_MS = 400
_SOURCE = Path(__file__).with_name("slow_sync.c")


class Disk:
    """A file system in memory for the data of one node, where this process may mount one."""

    def __init__(self, data_dir: Path, library: Path | None) -> None:
        self.data_dir = data_dir
        self._library = library
        self._slow = data_dir.with_suffix(".slow")
        self._is_mounted = False

    @property
    def environment(self) -> dict[str, str]:
        """For processes on this disk, so that it can be made slow."""
        if self._library is None:
            return {}
        return {"LD_PRELOAD": str(self._library), "SLOW_SYNC_FILE": str(self._slow), "SLOW_SYNC_MS": str(SYNC_MS)}

    @property
    def can_fill_up(self) -> bool:
        """Whether it is a file system of its own."""
        return self._is_mounted

    @property
    def can_be_slow(self) -> bool:
        """Whether syncs of its processes can be held up."""
        return self._library is not None

    def mount(self, size: str) -> None:
        """Give the node a file system of its own."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.data_dir)]
        self._is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def unmount(self) -> None:
        """Take it away."""
        if self._is_mounted:
            subprocess.run(["umount", "-l", str(self.data_dir)], check=True)
            self._is_mounted = False

    def largest(self, count: int = 5) -> str:
        """What takes most of it, in MB: partitions, and what lies beside them."""
        sizes: Counter[str] = Counter()
        for folder, _, files in os.walk(self.data_dir):
            place = "/".join(Path(folder).relative_to(self.data_dir).parts[:2])
            for name in files:
                # A file may go while this is looked at.
                with contextlib.suppress(OSError):
                    sizes[place] += (Path(folder) / name).stat().st_blocks * 512
        told = ", ".join(f"{place} {size >> 20}" for place, size in sizes.most_common(count))
        return f"{sizes.total() >> 20} MB: {told}"

    def fill(self) -> None:
        """Leave no room."""
        with (self.data_dir / "filler").open("wb", buffering=0) as file:
            for piece in (1 << 20, 65_536, 512):
                with contextlib.suppress(OSError):
                    while file.write(bytes(piece)):
                        pass

    def make_room(self) -> None:
        """Remove what fills it."""
        (self.data_dir / "filler").unlink(missing_ok=True)

    def slow_down(self) -> None:
        """Every sync takes longer from now on."""
        self._slow.touch()

    def speed_up(self) -> None:
        """As fast as it was."""
        self._slow.unlink(missing_ok=True)

    def lose(self) -> None:
        """A new disk in the place of the old one: nothing is on it."""
        for one in self.data_dir.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()


def build_slow_sync(folder: Path) -> Path | None:
    """The library that makes a disk slow; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    target = folder / "slow_sync.so"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", target, _SOURCE, "-ldl"], capture_output=True, check=False
    )
    return target if done.returncode == 0 else None


def can_mount() -> bool:
    """Whether this process may mount a file system."""
    return os.geteuid() == 0
