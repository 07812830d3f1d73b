"""Children: processes that end when this one does, however it ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from goqueue.libc import LIBC

_PR_SET_PDEATHSIG = 1


async def spawn(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, log: int | None = None
) -> Process:
    """Start a program. `log` is a file descriptor for its output; None: this process's own."""
    return await asyncio.create_subprocess_exec(
        *command,
        env=None if environment is None else {**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # A Ctrl-C in the terminal is for the parent, which ends its children in order.
        start_new_session=True,
        preexec_fn=_dies_with(os.getpid()),
    )


async def end(process: Process | None, *, seconds_max: float) -> None:
    """Ask a child to stop, and kill it if it does not."""
    if process is None or process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(seconds_max):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _dies_with(parent: int) -> Callable[[], None]:
    def set_up() -> None:
        # Linux only; elsewhere a killed supervisor leaves its children behind.
        with suppress(AttributeError):
            LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return set_up
