"""A pytest plugin for `make test-race`: threads take turns as often as the interpreter can, and asyncio checks itself.

Python has no race detector. What it has: a switch interval, which at its smallest makes almost every pair of steps of
two threads happen in either order over a run, and asyncio's debug mode, which refuses calls from the wrong thread and
names coroutines that nobody awaited. Warnings are errors in every run.
"""

from __future__ import annotations

import os
import sys

SWITCH_SECONDS = 1e-6

os.environ["PYTHONASYNCIODEBUG"] = "1"
sys.setswitchinterval(SWITCH_SECONDS)


def pytest_report_header() -> str:
    return f"race: threads switch every {sys.getswitchinterval() * 1e6:.0f} µs, asyncio debug mode is on"
