"""The schema worker: a process that runs users' schemas for the broker, so that none of them can hold it up.

Reads jobs from standard input and writes answers to standard output, each a length in four bytes and msgpack.
Whoever started it ends it when a job takes too long. It keeps compiled schemas, the least recently used go first.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections import OrderedDict
from typing import Any, BinaryIO

import msgspec

from goqueue.errors import GoQueueError, InvalidSchema, SchemasNotInstalled
from goqueue.formats.jobs import CheckSchema, CompareSchemas, DecodeValue, DecodeValues, Job, Outcome
from goqueue.formats.readable import readable_json
from goqueue.formats.source import Source
from goqueue.formats.work import (
    Compiled,
    check_schema,
    check_values,
    compare_schemas,
    compiled,
    decode_value,
    decode_values,
)
from goqueue.libc import LIBC

_PR_SET_PDEATHSIG = 1


class Worker:
    """Answers jobs, one after the other."""

    def __init__(self, cache_size: int) -> None:
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Compiled] = OrderedDict()

    def answer(self, job: Any) -> Outcome:
        """Do a job. What is wrong with a schema is an answer too."""
        try:
            return self._answer(job)
        except SchemasNotInstalled as error:
            return Outcome(missing=str(error), hint=error.hint or "")
        except GoQueueError as refusal:
            return Outcome(refusal=str(refusal), field=refusal.field or "", hint=refusal.hint or "")
        except MemoryError:
            return Outcome(refusal="the schema or the value needs more memory than allowed")
        except RecursionError:
            return Outcome(refusal="the schema or the value is nested too deeply")

    def _answer(self, job: Any) -> Outcome:
        if isinstance(job, CheckSchema):
            return _result(check_schema(job.source, normalize=job.normalize))
        if isinstance(job, CompareSchemas):
            return _result(compare_schemas(job.level, job.new, job.old))
        if isinstance(job, DecodeValue):
            return _result(readable_json(decode_value(compiled(job.source), job.value, job.indexes)))
        if isinstance(job, DecodeValues):
            schema = self._find(job.key, job.source)
            return _result(decode_values(schema or compiled(job.source), job.values, job.indexes))
        schema = self._find(job.key, job.source)
        if schema is None:
            return Outcome(unknown=True)
        return _result(check_values(schema, job.values, job.indexes))

    def _find(self, key: str, source: Source | None) -> Compiled | None:
        schema = self._cache.get(key)
        if schema is None and source is not None:
            schema = self._cache[key] = compiled(source)
            if len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        elif schema is not None:
            self._cache.move_to_end(key)
        return schema


def _result(value: Any) -> Outcome:
    return Outcome(result=msgspec.Raw(msgspec.msgpack.encode(value)))


def main(cache_size: int, memory_bytes_max: int) -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes_max, memory_bytes_max))
    # A crash of a library must not fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A broker that is killed takes its worker along, even one that is busy with a schema that never ends.
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    worker = Worker(cache_size)
    decoder = msgspec.msgpack.Decoder(Job)
    while (frame := _read(source)) is not None:
        try:
            outcome = worker.answer(decoder.decode(frame))
        except msgspec.MsgspecError as error:
            outcome = Outcome(refusal=str(InvalidSchema(f"the request cannot be read: {error}")))
        answer = msgspec.msgpack.encode(outcome)
        target.write(len(answer).to_bytes(4, "big"))
        target.write(answer)
        target.flush()


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(4)
    return source.read(int.from_bytes(head, "big")) if len(head) == 4 else None


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
