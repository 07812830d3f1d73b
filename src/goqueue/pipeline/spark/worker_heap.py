"""What is done about the memory of Spark's Python workers, once, when our code first runs in one.

`pyspark.daemon` calls `gc.collect()` between two tasks of a worker that it keeps. With numpy, pandas
and Arrow loaded that is a tenth of a second, more than most tasks of a stream take themselves.
"""

from __future__ import annotations

import functools
import gc
import os

from goqueue.heap import keep_freed_memory

# For Arrow's own allocator, which reads it when it is loaded: how long it keeps memory that nobody uses.
ARROW_KEEPS_MS = "MIMALLOC_PURGE_DELAY"


@functools.cache
def settle() -> None:
    """Take what this worker has loaded out of the collector's sight, and keep memory that is let go of.

    What is alive at a worker's first task is its modules, which live as long as the worker does.
    Later garbage is found as ever.
    """
    gc.freeze()
    if keep_freed_memory() and ARROW_KEEPS_MS not in os.environ:
        # Somebody else's session: then the C library, which keeps memory now.
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
