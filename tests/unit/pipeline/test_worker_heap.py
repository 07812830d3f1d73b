"""A worker of Spark looks for garbage among what came since its first task, not among its modules."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

# In a process of its own: what is frozen stays so.
_STORY = """
import gc
from goqueue.pipeline.spark.worker_heap import settle

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


@pytest.mark.parametrize(("kept_ms", "pool"), [(None, "system"), ("10000", "mimalloc")])
def test_arrow_keeps_its_memory_by_its_own_setting_or_by_the_c_library(kept_ms: str | None, pool: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "MIMALLOC_PURGE_DELAY"}
    if kept_ms is not None:
        environment["MIMALLOC_PURGE_DELAY"] = kept_ms
    story = f"""
import pyarrow as pa
from goqueue.pipeline.spark.worker_heap import settle

settle()
assert pa.default_memory_pool().backend_name == {pool!r}, pa.default_memory_pool().backend_name
"""
    subprocess.run([sys.executable, "-c", story], check=True, env=environment)
