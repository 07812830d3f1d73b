"""A worker of Spark looks for garbage among what came since its first task, not among its modules."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: what is frozen stays so.
_STORY = """
import gc
from goqueue.pipeline.worker_heap import settle

class Link: pass

settle()
frozen = gc.get_freeze_count()
assert frozen > 10_000, frozen
one, other = Link(), Link()
one.other, other.one = other, one
del one, other
settle()
assert gc.get_freeze_count() == frozen
assert gc.collect() >= 2, "garbage of later tasks was not found"
"""


def test_modules_are_frozen_once_and_later_garbage_is_found() -> None:
    subprocess.run([sys.executable, "-c", _STORY], check=True)
