"""Freed memory stays with the process, where the C library can be asked for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from goqueue import heap

# Grows and lets go ten times, in a process of its own: the wish holds for the whole process.
_FAULTS = """
import resource, sys
from goqueue.heap import keep_freed_memory
if "keep" in sys.argv and not keep_freed_memory():
    sys.exit(3)
for _ in range(20):
    buffers = [bytearray(1_000_000) for _ in range(10)]
    buffers.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def page_faults(*arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", _FAULTS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this C library cannot be asked")
    return int(done.stdout)


def test_memory_that_was_let_go_of_is_used_again_without_asking_the_system():
    assert page_faults("keep") < page_faults() / 2


def test_a_c_library_without_the_wish_is_no_error(monkeypatch):
    monkeypatch.setattr(heap, "LIBC", object())

    assert not heap.keep_freed_memory()
