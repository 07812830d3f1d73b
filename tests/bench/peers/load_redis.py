"""redis-py with hiredis, for Redis Streams: pipelines of a thousand commands, reads of a thousand entries."""

from __future__ import annotations

import time
from typing import Any

from redis import Redis
from tests.bench.peers.common import (
    DISTINCT,
    QUEUE_BATCH,
    QUIET_SECONDS_MAX,
    WARM_UP_SECONDS,
    Wrong,
    at_rate,
    checksum,
    in_thread,
    main,
    payloads,
    percentiles,
    stamp,
    stamped,
)

FIELD = b"v"
GROUP = "work"


def connect(address: str) -> Redis:
    host, port = address.split(":")
    return Redis(host, int(port), socket_timeout=60)


def create(address: str, topic: str, partitions: int, durable: bool) -> dict[str, Any]:
    """A stream comes with its first entry. How durable it is, the server's file says."""
    connect(address).delete(topic)
    return {}


def produce(address: str, topic: str, partitions: int, size: int, count: int, durable: bool) -> dict[str, Any]:
    """XADD, a thousand in a pipeline; an error in any answer raises."""
    redis = connect(address)
    redis.ping()
    entries = [{FIELD: value} for value in payloads(size)]
    started = time.monotonic()
    for _ in range(count // DISTINCT):
        pipeline = redis.pipeline(transaction=False)
        for entry in entries:
            pipeline.xadd(topic, entry)
        pipeline.execute()
    return {"count": count, "seconds": time.monotonic() - started}


def stored(address: str, topic: str, partitions: int) -> dict[str, Any]:
    """How many entries the stream has."""
    return {"count": connect(address).xlen(topic)}


def consume(address: str, topic: str, partitions: int, count: int) -> dict[str, Any]:
    """XREAD from the beginning."""
    redis = connect(address)
    redis.ping()
    started = time.monotonic()
    got = total = 0
    last: Any = "0"
    while got < count:
        answer = redis.xread({topic: last}, count=DISTINCT, block=int(QUIET_SECONDS_MAX * 1000))
        entries = _entries(answer, got, count)
        got += len(entries)
        total += checksum([fields[FIELD] for _, fields in entries])
        last = entries[-1][0]
    ended = time.monotonic()
    return {"count": got, "seconds": ended - started, "checksum": total, "started": started, "ended": ended}


def queue(address: str, topic: str, count: int, batch: int = QUEUE_BATCH) -> dict[str, Any]:
    """XREADGROUP many at a time, XACK them in one call."""
    redis = connect(address)
    redis.xgroup_create(topic, GROUP, id="0")
    started = time.monotonic()
    got = total = 0
    while got < count:
        answer = redis.xreadgroup(GROUP, "one", {topic: ">"}, count=batch, block=int(QUIET_SECONDS_MAX * 1000))
        entries = _entries(answer, got, count)
        if redis.xack(topic, GROUP, *[one for one, _ in entries]) != len(entries):
            raise Wrong("an entry could not be acknowledged")
        got += len(entries)
        total += checksum([fields[FIELD] for _, fields in entries])
    seconds = time.monotonic() - started
    return {"count": got, "seconds": seconds, "checksum": total, "left": redis.xpending(topic, GROUP)["pending"]}


def latency(address: str, topic: str, partitions: int, size: int, rate: int, seconds: float) -> dict[str, Any]:
    """What is due goes out in one pipeline; the reader blocks in XREAD."""
    warm_up = int(rate * WARM_UP_SECONDS)
    wanted = warm_up + int(rate * seconds)
    redis = connect(address)
    first = redis.xadd(topic, {FIELD: b"first"})

    def read() -> list[float]:
        reader, last, late = connect(address), first, []
        while len(late) < wanted:
            entries = _entries(reader.xread({topic: last}, block=int(QUIET_SECONDS_MAX * 1000)), len(late), wanted)
            now = time.monotonic()
            late += [now - stamped(fields[FIELD]) for _, fields in entries]
            last = entries[-1][0]
        return late

    def send(dues: list[float]) -> None:
        pipeline = redis.pipeline(transaction=False)
        for due in dues:
            pipeline.xadd(topic, {FIELD: stamp(size, due)})
        pipeline.execute()

    reading = in_thread(read)
    at_rate(rate, WARM_UP_SECONDS, send, time.sleep)
    started = time.monotonic()
    at_rate(rate, seconds, send, time.sleep)
    took = time.monotonic() - started
    late = reading()
    return {"count": len(late) - warm_up, "rate": rate * seconds / took, **percentiles(late[warm_up:])}


def delete(address: str, topic: str) -> dict[str, Any]:
    """Make room: everything lies in memory."""
    return {"count": connect(address).delete(topic)}


def _entries(answer: Any, got: int, count: int) -> list[Any]:
    """The entries of an answer in either protocol version; none at all means that some are lost."""
    if not answer:
        raise Wrong(f"only {got} of {count} messages came")
    found = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
    return list(found)


if __name__ == "__main__":
    main(globals())
