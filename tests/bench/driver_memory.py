"""How much memory a driver has at most while something runs: its Python process, and what is alive in its JVM's heap.

The resident memory of a JVM says how large its heap may grow, not what it holds. What is alive is what is left of the
old generation after a collection, so the JVM is asked for one every second.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_EVERY_S = 1.0


class DriverMemory:
    """The largest figures between its beginning and its end."""

    def __init__(self, spark: Any) -> None:
        self._jvm = spark.sparkContext._jvm
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.python_bytes = self.heap_bytes = 0

    def __enter__(self) -> Self:
        # From here on the system's own high-water mark counts anew.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                self.python_bytes = int(line.split()[1]) * 1024

    def _watch(self) -> None:
        beans = self._jvm.java.lang.management.ManagementFactory
        while not self._ended.wait(_EVERY_S):
            self._jvm.java.lang.System.gc()
            self.heap_bytes = max(self.heap_bytes, beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())
        if not self.heap_bytes:
            self._jvm.java.lang.System.gc()
            self.heap_bytes = beans.getMemoryMXBean().getHeapMemoryUsage().getUsed()
