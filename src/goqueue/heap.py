"""How the process gets memory, and keeps what it has let go of.

Answers to fetches are made, and by Spark's workers read, in buffers of megabytes that live for milliseconds. By
default the C library gives such memory back to the system each time and gets it again page by page, which cost half
of a fetch's processor time.
"""

from __future__ import annotations

import ctypes

from goqueue.libc import LIBC

# From malloc.h. The first is how much free memory may stay, the second from where on memory is mapped anew each time.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
FREE_BYTES_MAX = 64 * 1024 * 1024
_MAPPED_BYTES_MIN = 32 * 1024 * 1024


def keep_freed_memory() -> bool:
    """Use freed memory again instead of giving it back; False where the C library has no such wish."""
    mallopt = getattr(LIBC, "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES_MIN)) and bool(mallopt(_TRIM_THRESHOLD, FREE_BYTES_MAX))


def unfilled(size: int) -> bytearray:
    """A buffer to be filled whole before anybody looks at it: its bytes are whatever was there."""
    buffer: bytearray = _new_bytearray(None, size)
    return buffer


# `bytearray(size)` writes zeros, which takes as long as to read the same bytes from the page cache.
_new_bytearray = ctypes.pythonapi.PyByteArray_FromStringAndSize
_new_bytearray.restype = ctypes.py_object
_new_bytearray.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t]
