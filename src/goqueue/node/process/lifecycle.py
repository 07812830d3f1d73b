"""From a command line to a serving process and back: signals, banner, ready file, limits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys

import uvloop

from goqueue.config import Config
from goqueue.errors import StartInterrupted
from goqueue.heap import keep_freed_memory
from goqueue.node.assemble import assemble
from goqueue.node.node import Node, Running
from goqueue.node.process.banner import show_banner
from goqueue.node.process.logs import set_up_logging
from goqueue.node.process.ready_file import check_ready_file, ready_file
from goqueue.node.process.service_manager import announced

# Objects made and not freed before the collector looks at the youngest; and how often until it looks at older ones.
_COLLECT_AFTER = (20_000, 20, 20)


def run(config: Config, *, ready_file: str | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises a `GoQueueError` if the broker cannot start."""
    check_ready_file(ready_file)
    set_up_logging(config.broker.log_level)
    # Whatever part makes a file, it is for the owner alone.
    os.umask(0o077)
    _raise_open_files_limit()
    keep_freed_memory()
    stopping = asyncio.Event()
    uvloop.run(serve(assemble(config, stopping=stopping), stopping, ready_path=ready_file))


async def serve(node: Node, stopping: asyncio.Event, *, ready_path: str | None) -> None:
    """Start the node, say so, and stop it when told to, also while it waits for other nodes."""
    _stop_on_signals(stopping)
    try:
        running = await node.start()
    except StartInterrupted:
        return
    try:
        with ready_file(ready_path, running), announced(_places(running)):
            show_banner(running, sys.stdout)
            keep_for_good()
            await stopping.wait()
    finally:
        await node.stop()


def _places(running: Running) -> str:
    grpc = "" if running.grpc is None else f", gRPC on {running.grpc}"
    return f"Kafka on {running.kafka}, HTTP on {running.http}{grpc}"


def keep_for_good() -> None:
    """What is there by now stays: the collector need not stop everything again and again to look at it.

    What is made later by the thousand stays as well (partitions, terms, connections). With Python's own threshold of
    700 objects a failover of a thousand leaders spent more time in collections than in its work.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    gc.enable()


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """The first signal asks for a clean stop; the second does not wait for it."""

    def on_signal(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


def _raise_open_files_limit() -> None:
    """A log with many partitions and clients needs more handles than a shell gives by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        # Some containers show a limit that they do not let us take.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
