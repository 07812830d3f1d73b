"""The commands `goqueue bench`: how fast is this broker, from here, over HTTP; and beside other brokers.

Every figure is checked: all records are acknowledged, the topic's offsets must add up, and
what is read back must be what was sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import goqueue
from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, ContextName, Output, Server, fail, with_client
from goqueue.client import Client
from goqueue.client.options import AcksName
from goqueue.client.producing.producer import Producer

_TOPIC = "goqueue-bench"
_READ = 5_000


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def bench(
    context_of_call: typer.Context,
    messages: Annotated[int, typer.Option("--messages", "-n", help="Messages to send and read back.", min=1)] = 100_000,
    size: Annotated[int, typer.Option("--size", help="Bytes of each value.", min=8)] = 100,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="Partitions of the topic.", min=1)] = 3,
    acks: Annotated[AcksName, typer.Option("--acks", help="none, leader or all.")] = "leader",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the topic afterwards.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Measure produce and consume through the Python client, and verify every message."""
    if context_of_call.invoked_subcommand is not None:
        return

    async def work(client: Client) -> dict[str, Any]:
        topic = f"{_TOPIC}-{time.time_ns():x}"
        await client.create_topic(topic, partitions=partitions)
        try:
            return await _measure(client, topic, messages, size, partitions, acks)
        finally:
            if not keep:
                await client.delete_topic(topic)

    result = with_client(work, server, context)
    show(result, output)
    if not result["verified"]:
        raise fail("the messages that were read differ from those that were sent", REFUSED)


@app.command(
    "peers", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def peers(call: typer.Context) -> None:
    """Compare GoQueue with Apache Kafka, NATS, Redis and RabbitMQ. Needs the source tree.

    The harness starts other brokers and drives them with their own clients. Whoever only runs a
    broker should not have to install all that, so it is part of the source and not of the package.
    """
    root = Path(goqueue.__file__).parents[2]
    if not (root / "tests" / "bench" / "peers").is_dir():
        raise fail(
            "this comparison is part of the source tree and not of the installed package: get the source and run "
            "`make bench-peers` in it",
            REFUSED,
        )
    command = [sys.executable, "-m", "tests.bench.peers", *call.args]
    done = subprocess.run(command, cwd=root, check=False)  # noqa: S603 - our own interpreter, our own module
    raise typer.Exit(done.returncode)


async def _measure(
    client: Client, topic: str, messages: int, size: int, partitions: int, acks: AcksName
) -> dict[str, Any]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("produce", total=messages)
        started = time.perf_counter()
        async with client.producer(acks=acks) as producer:
            sent = await _produce(producer, topic, messages, size, lambda: bar.advance(task, 1000))
        produced_s = time.perf_counter() - started
        stored = (await client.topic(topic))["total_messages"]
        task = bar.add_task("consume", total=messages)
        started = time.perf_counter()
        read = await asyncio.gather(*(_read_all(client, topic, one) for one in range(partitions)))
        consumed_s = time.perf_counter() - started
        bar.update(task, completed=messages)
    received = 0
    for _, digest in read:
        received ^= digest
    return {
        "messages": messages,
        "bytes_each": size,
        "acks": acks,
        "produce_per_second": round(messages / produced_s),
        "consume_per_second": round(messages / consumed_s),
        "stored": stored,
        "read": sum(count for count, _ in read),
        "verified": stored == messages and sum(count for count, _ in read) == messages and received == sent,
    }


async def _produce(producer: Producer, topic: str, messages: int, size: int, every_thousand: Any) -> int:
    """Send numbered values; returns a digest of the set, which does not depend on its order."""
    digest = 0
    futures = []
    for number in range(messages):
        value = b"%0*d" % (size, number)
        digest ^= _hash(value)
        futures.append(await producer.send(topic, value))
        if number % 1000 == 999:
            every_thousand()
    await producer.flush()
    for future in futures:
        future.result()
    return digest


async def _read_all(client: Client, topic: str, partition: int) -> tuple[int, int]:
    offset, count, digest = 0, 0, 0
    while True:
        messages, offset = await client.read(topic, partition, offset=offset, limit=_READ)
        if not messages:
            return count, digest
        count += len(messages)
        for message in messages:
            digest ^= _hash(message.value or b"")


def _hash(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest())
