"""`make bench-schemas`: what checking messages against schemas costs.

    python -m tests.bench.bench_schemas [--quick] [--only id full step]

Turns with and without the check lie beside each other within one run. Prints a Markdown table; exit code 1 if a bar
was not met. "Per core" counts the processor time of the checking process and of its worker together.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import fastavro
import psutil
from confluent_kafka import Producer
from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_least, told
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

from goqueue.broker.arrivals.publish import PublishService
from goqueue.codec.batch_encode import encode_batch
from goqueue.formats.envelope import prefix_of
from goqueue.formats.jobs import CheckSchema
from goqueue.formats.source import Checked, SchemaType, Source
from goqueue.metadata.settings.topic_config import parse_topic_config
from goqueue.records import Acks, NewRecord
from goqueue.schemas.commands import Register
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.validation.checker import SchemaChecker
from goqueue.schemas.values import Schema
from goqueue.schemas.workers import WorkerProcess, result_of

FIELDS = [f"field_{number}" for number in range(10)]
JSON_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "integer" if index % 2 else "string"} for index, name in enumerate(FIELDS)},
    "required": FIELDS,
    "additionalProperties": False,
}
AVRO_SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": name, "type": "long" if index % 2 else "string"} for index, name in enumerate(FIELDS)],
}
DOCUMENT = {name: index if index % 2 else "x" * 180 for index, name in enumerate(FIELDS)}
BATCH = 1000


def check_ids(*, quick: bool) -> list[Bar]:
    """Closed batches of 100 B values into a topic that checks ids, and into one that does not."""
    count, rounds = (20_000, 1) if quick else (300_000, 7)
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        broker = BrokerProcess(Path(folder)).start()
        try:
            http = Http(broker.http)
            topics = {"off": "plain", "id": "checked"}
            for level, name in topics.items():
                config = {"goqueue.schema.validation": level}
                http.post("/topics", {"name": name, "num_partitions": 1, "config": config})
            body = {"schemaType": "JSON", "schema": "true"}
            schema_id = http.post("/subjects/checked-value/versions", body)["id"]
            value = prefix_of(schema_id) + b"x" * 95
            producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 5, "acks": 1, "log_level": 0})
            rates: dict[str, list[float]] = {level: [] for level in topics}
            spent: dict[str, list[float]] = {level: [] for level in topics}
            process = psutil.Process(broker.pid)
            for turn in range(2 * rounds + 2):
                level = ("off", "id")[turn % 2]
                before = sum(process.cpu_times()[:2])
                rate = _produce(producer, topics[level], value, count)
                # The first turns warm up.
                if turn > 1:
                    rates[level].append(rate)
                    spent[level].append((sum(process.cpu_times()[:2]) - before) / count)
        finally:
            broker.stop()
    shares = [checked / plain for checked, plain in zip(rates["id"], rates["off"], strict=True)]
    return [
        at_least("schema ids checked, 100 B, share of no check", median(shares), 0.6),
        told("messages per second with ids checked", median(rates["id"]), digits=0),
        told("messages per second without", median(rates["off"]), digits=0),
        told("processor time of the broker per message with ids checked, µs", 1e6 * median(spent["id"])),
        told("processor time of the broker per message without, µs", 1e6 * median(spent["off"])),
    ]


def _produce(producer: Producer, topic: str, value: bytes, count: int) -> float:
    failed: list[object] = []
    started = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=lambda error, _: error and failed.append(error))
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(120)
    if failed:
        raise RuntimeError(f"{len(failed)} messages were refused: {failed[0]}")
    return count / (time.perf_counter() - started)


def check_values(*, quick: bool) -> list[Bar]:
    """Values of about 1 KB and ten fields, decoded and checked in full, batches of 1,000."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(AVRO_SCHEMA)), DOCUMENT)
    batches = 2 if quick else 60
    bars = []
    for name, kind, schema, value, bar in (
        ("JSON Schema", SchemaType.JSON, JSON_SCHEMA, json.dumps(DOCUMENT).encode(), 60_000),
        ("Avro", SchemaType.AVRO, AVRO_SCHEMA, out.getvalue(), 80_000),
    ):
        per_core, rate = asyncio.run(_checked(kind, json.dumps(schema), value, batches))
        bars.append(at_least(f"{name} checked in full, records per second and core", per_core, bar, digits=0))
        bars.append(told(f"{name} checked in full, records per second", rate, digits=0))
    return bars


async def _checked(kind: SchemaType, text: str, value: bytes, batches: int) -> tuple[float, float]:
    worker = WorkerProcess(seconds_max=30, memory_bytes_max=2**31, cache_size=10)
    try:
        machine = RegistryMachine(10)
        checked = result_of(await worker.run(CheckSchema(Source(kind, text))), Checked)
        schema = Schema(kind, checked.text, b"print", "guid", names=checked.names)
        command_ = Register("t-value", schema, machine.state.basis("t-value"))
        for key, record in machine.decide(1, command_, 0).records:
            machine.apply(key, record)
        checker = SchemaChecker(SimpleNamespace(state=machine.state), worker)  # type: ignore[arg-type]
        config = parse_topic_config({"goqueue.schema.validation": "full"})
        place: Any = SimpleNamespace(config=config, topic_name="t", internal=False)
        records = [NewRecord(None, prefix_of(1) + value)] * BATCH
        if bad := await checker.check(place, records):
            raise RuntimeError(f"a good record was refused: {bad}")
        process = psutil.Process(worker._process.pid)  # type: ignore[union-attr]
        cpu, started = _cpu(process), time.perf_counter()
        for _ in range(batches):
            await checker.check(place, records)
        count = batches * BATCH
        return count / (_cpu(process) - cpu), count / (time.perf_counter() - started)
    finally:
        await worker.close()


def _cpu(worker: psutil.Process) -> float:
    times = worker.cpu_times()
    return float(times.user + times.system) + time.process_time()


def check_off(*, quick: bool) -> list[Bar]:
    """A topic that checks nothing, with the step in the list of the way in and without it."""
    return asyncio.run(_check_off(count=500 if quick else 4000, rounds=1 if quick else 15))


async def _check_off(count: int, rounds: int) -> list[Bar]:
    from goqueue.broker.topics import NewTopic
    from goqueue.config import Config
    from goqueue.node.assemble import assemble
    from goqueue.testing.clock import ManualClock, seeded_rng
    from goqueue.testing.memory_files import MemoryFiles
    from goqueue.testing.sim_loop import InlineOffload

    node = assemble(Config(), files=MemoryFiles(), clock=ManualClock(), rng=seeded_rng(1), offload=InlineOffload())
    services = (await node.start()).services
    for name in ("with", "without"):
        await services.topics.create(NewTopic(name, partitions=1))
    full: PublishService = services.publish
    bare = PublishService.__new__(PublishService)
    bare.__dict__.update(full.__dict__)
    bare._steps = tuple(step for step in full._steps if type(step).__name__ != "CheckSchemas")
    batch = encode_batch([NewRecord(None, b"x" * 100)] * 100, now_ms=0)
    shares: list[float] = []
    for turn in range(rounds + 1):
        times = {}
        order = (("with", full), ("without", bare)) if turn % 2 else (("without", bare), ("with", full))
        for name, service in order:
            # Nothing here waits, so that the processor's time says more than the clock on a machine with other work.
            started = time.process_time()
            for _ in range(count):
                service.append(name, 0, batch, acks=Acks.LEADER)
            times[name] = time.process_time() - started
        if turn:
            shares.append(times["without"] / times["with"])
    await node.stop()
    return [at_least("topic without a check, share of a broker without the step", median(shares), 0.99)]


BENCHES = {"step": check_off, "id": check_ids, "full": check_values}


def main(arguments: list[str]) -> int:
    """Run the benches and print the table."""
    options = command(__doc__, only=list(BENCHES)).parse_args(arguments)
    bars = run(options.only, lambda name: BENCHES[name](quick=options.quick))
    return finish(bars, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
