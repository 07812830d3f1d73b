"""Memory that is there before a clock starts.

A virtual machine may give its free memory back to its host. Whoever writes next pays for getting it again, page by
page: 500 MB into a file cost 0.13 s of processor or 1.4 s on ours. That is nobody's speed, and falls on whoever stores.
"""

from __future__ import annotations

import tempfile

# The most that is written for it.
_BYTES_MAX = 2 * 2**30


def get_memory(need: int) -> None:
    """Have the system hold free memory for twice of what is about to be written.

    A file that is written and removed leaves it behind.
    """
    piece = bytes(2**20)
    with tempfile.TemporaryFile() as file:
        for _ in range(min(2 * need, _BYTES_MAX) // len(piece)):
            file.write(piece)
