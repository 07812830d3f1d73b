"""The C library, for the few calls that Python does not have."""

from __future__ import annotations

import ctypes

LIBC = ctypes.CDLL(None, use_errno=True)
