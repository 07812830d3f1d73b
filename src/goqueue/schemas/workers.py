"""Schema workers: processes that run users' schemas, each job within a time limit.

A worker starts with its first job and ends when it has had none for a while. One that takes too long, or dies, is
replaced; the job that it had is refused, for it would kill the next worker too. Jobs wait in line, up to a limit.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from goqueue.errors import GoQueueError, InvalidSchema, SchemasNotInstalled, ShuttingDown, TooBusy
from goqueue.formats.jobs import Outcome

T = TypeVar("T")
_IDLE_SECONDS = 120.0
_HEAD_BYTES = 4
# How often a job is given the time limit again while it has not had that much processor time.
_WAITS_MAX = 15


class RunsJobs(Protocol):
    """Whatever does jobs of `goqueue.formats.jobs`."""

    async def run(self, job: Any) -> Outcome:
        """The outcome of a job; raises if there is none."""
        ...

    async def close(self) -> None:
        """Take no more jobs."""
        ...


class _WorkerDied(InvalidSchema):
    """The process ended while it was at a job."""


class WorkerProcess:
    """One worker."""

    def __init__(self, *, seconds_max: float, memory_bytes_max: int, cache_size: int, waiting_max: int = 1000) -> None:
        self._seconds_max = seconds_max
        self._arguments = (str(cache_size), str(memory_bytes_max))
        self._waiting_max = waiting_max
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Outcome).decode
        # How often a worker had to be replaced.
        self.failures = 0
        self._closed = False

    @property
    def is_running(self) -> bool:
        """Whether there is a process now."""
        return self._process is not None

    async def run(self, job: Any) -> Outcome:
        """Do a job. One that takes too long is refused."""
        if self._waiting >= self._waiting_max:
            raise TooBusy(f"{self._waiting} jobs wait for the schema worker")
        self._waiting += 1
        try:
            async with self._turn:
                frame = self._encode(job)
                try:
                    return await self._run(frame)
                except _WorkerDied:
                    # It may have been killed from outside: only who kills two of them is to blame.
                    return await self._run(frame)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the process. What it is at is not finished, and nobody is to blame for that."""
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        await self._end()

    async def _run(self, frame: bytes) -> Outcome:
        self._check_open()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        process = await self._started()
        exchange = asyncio.ensure_future(self._exchange(process, frame))
        try:
            # It may have been closed while the process was being started.
            self._check_open()
            await self._wait(exchange, process.pid)
            outcome = await exchange
        except TimeoutError:
            exchange.cancel()
            await self._replace()
            raise InvalidSchema(
                f"the schema takes longer than {self._seconds_max:g} s", field="schema", hint="make the schema simpler"
            ) from None
        except (asyncio.IncompleteReadError, OSError):
            await self._replace()
            self._check_open()
            raise _WorkerDied(
                "the schema worker ended while it read this schema: it needs too much memory, or crashes a library",
                field="schema",
            ) from None
        except BaseException:
            exchange.cancel()
            # Its answer would be taken for that of the next job.
            await self._end()
            raise
        self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._rest)
        return outcome

    async def _wait(self, exchange: asyncio.Future[Outcome], pid: int) -> None:
        """Raise TimeoutError once a job has had its processor time, for which it may wait on a busy machine."""
        spent = _processor_seconds(pid)
        for _ in range(_WAITS_MAX):
            done, _ = await asyncio.wait({exchange}, timeout=self._seconds_max)
            if done:
                return
            now = _processor_seconds(pid)
            if spent is None or now is None or now - spent >= self._seconds_max:
                break
        raise TimeoutError

    def _check_open(self) -> None:
        if self._closed:
            raise ShuttingDown("the node is stopping")

    async def _exchange(self, process: asyncio.subprocess.Process, frame: bytes) -> Outcome:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018
        if stdin.is_closing():
            # It died before it was given anything; uvloop would raise a RuntimeError.
            raise ConnectionResetError("the worker has closed its input")
        stdin.write(len(frame).to_bytes(_HEAD_BYTES, "big"))
        stdin.write(frame)
        await stdin.drain()
        head = await stdout.readexactly(_HEAD_BYTES)
        return self._decode(await stdout.readexactly(int.from_bytes(head, "big")))

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "goqueue.formats.worker",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                # A schema has no business with what the broker was told in its environment.
                env={name: os.environ[name] for name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV") if name in os.environ},
                limit=16 * 1024 * 1024,
            )
        return self._process

    async def _replace(self) -> None:
        self.failures += 1
        await self._end()

    def _rest(self) -> None:
        self._idle = None
        if not self._turn.locked() and self._process is not None and self._process.stdin is not None:
            # It ends by itself when its input does.
            self._process.stdin.close()
            self._process = None

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _processor_seconds(pid: int) -> float | None:
    """What the process and the children that it waited for have used; None where the system does not say."""
    try:
        # The name in parentheses may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return sum(int(one) for one in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def result_of(outcome: Outcome, kind: type[T] | Any) -> T:
    """What a job came to, or the error that it came to."""
    if outcome.missing:
        raise _missing(outcome)
    if outcome.refusal:
        raise InvalidSchema(outcome.refusal, field=outcome.field or "schema", hint=outcome.hint or None)
    result: T = msgspec.msgpack.decode(outcome.result, type=kind)
    return result


def _missing(outcome: Outcome) -> GoQueueError:
    error = SchemasNotInstalled("")
    error.args = (outcome.missing,)
    return error
