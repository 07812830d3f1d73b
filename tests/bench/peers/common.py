"""What all clients of the comparison share: payloads, their checksum, percentiles, and the way in.

Every client is a script of its own and runs in a process of its own, so that nobody borrows
its time. All keep the memory that they have let go of: by default the C library gives it back to
the system and gets it again page by page, or does not, depending on the largest answer that the
process has seen, and readers were 1.5 times as fast with the one as with the other. All answer one
line of JSON. All send the same payloads, and all sum the CRC-32C of
every value that they read: a sum does not depend on the order, and misses no lost, doubled or
damaged message in practice.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from crc32c import crc32c
from tests.bench.memory import get_memory

from goqueue.heap import keep_freed_memory

# Counts are multiples of this, so that the sum is known beforehand.
DISTINCT = 1000
# What a queue consumer takes at a time, with every client.
QUEUE_BATCH = 500
SECONDS_MAX = 300.0
# No message for so long while some are missing: they are lost.
QUIET_SECONDS_MAX = 20.0
# Messages of the first seconds are not counted: a compiler of a virtual machine is still at work.
WARM_UP_SECONDS = 2.0


class Wrong(AssertionError):
    """A figure that must not be published: something was refused, lost, doubled or damaged."""


def payloads(size: int) -> list[bytes]:
    """The values that are sent over and over; they do not compress."""
    chance = random.Random(size)
    return [chance.randbytes(size) for _ in range(DISTINCT)]


def checksum(values: Iterable[bytes]) -> int:
    """The same for the same values in any order."""
    return sum(map(crc32c, values))


def expected_checksum(size: int, count: int) -> int:
    """What a reader of `count` messages must have summed."""
    if count % DISTINCT:
        raise ValueError(f"count must be a multiple of {DISTINCT}")
    return checksum(payloads(size)) * (count // DISTINCT)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p99, p99.9 and the worst, in milliseconds."""
    ordered = sorted(seconds)
    places = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    row = {name: ordered[min(len(ordered) - 1, int(len(ordered) * place))] * 1000 for name, place in places.items()}
    return {**row, "max_ms": ordered[-1] * 1000}


def stamp(size: int, due: float) -> bytes:
    """A value that says when it should have been sent, whether or not the sender got to it in time."""
    return b"%020.9f" % due + bytes(size - 20)


def stamped(value: bytes) -> float:
    """When that was."""
    return float(value[:20])


def at_rate(rate: int, seconds: float, send: Callable[[list[float]], object], idle: Callable[[float], object]) -> None:
    """Hand out due times, `rate` of them a second; late ones are made up for, never left out.

    `send` gets all that are due: a client that can send several at once may.
    """
    started = time.monotonic()
    number, count = 0, int(rate * seconds)
    while number < count:
        due_count = min(count, int((time.monotonic() - started) * rate) + 1)
        if due_count > number:
            send([started + one / rate for one in range(number, due_count)])
            number = due_count
        else:
            idle(min(max(started + number / rate - time.monotonic(), 0), 0.001))


async def until(due: float) -> None:
    """Sleep on the loop until then, in short steps, because timers of a loop are coarse."""
    while (left := due - time.monotonic()) > 0:  # noqa: ASYNC110 - it is time that is waited for
        await asyncio.sleep(min(left, 0.001))


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Run beside the caller; the returned function waits for the result, or raises what went wrong."""
    outcome: list[Any] = []

    def run_it() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:  # noqa: BLE001 - handed over to whoever waits
            outcome.append((None, error))

    thread = threading.Thread(target=run_it, daemon=True)
    thread.start()

    def wait() -> Any:
        thread.join(SECONDS_MAX)
        if not outcome:
            raise Wrong("the reader never ended")
        result, error = outcome[0]
        if error is not None:
            raise error
        return result

    return wait


def start(module: str, function: str, **arguments: Any) -> subprocess.Popen[str]:
    """Begin a function of a client script in a new process."""
    command = [sys.executable, "-m", f"tests.bench.peers.{module}", function, json.dumps(arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Its result; whatever it complained about is an error here."""
    try:
        out, complaint = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        out, complaint = process.communicate()
    finally:
        # Whoever stops the run stops its clients.
        process.kill()
    if process.returncode != 0 or not out.strip():
        last = complaint.strip().splitlines()[-12:]
        raise Wrong("the client failed:\n" + "\n".join(last))
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def run(module: str, function: str, **arguments: Any) -> dict[str, Any]:
    """Run a function of a client script in a new process."""
    return finish(start(module, function, **arguments))


def main(functions: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """The other end: `python -m tests.bench.peers.SCRIPT FUNCTION JSON`."""
    function, arguments = sys.argv[1], json.loads(sys.argv[2])
    keep_freed_memory()
    if function == "produce":
        get_memory(arguments["size"] * arguments["count"])
    print(json.dumps(functions[function](**arguments)))
