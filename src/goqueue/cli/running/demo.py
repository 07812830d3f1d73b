"""The command `goqueue demo`: a one-minute tour on a broker that lives only as long as the tour."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import replace

import typer
from rich.console import Console

from goqueue.cli.session import INTERRUPTED
from goqueue.client import Client, Consumer, Message, connect
from goqueue.config import Config
from goqueue.node.assemble import assemble

TOPIC = "demo-orders"
CUSTOMERS = ("ada", "grace", "linus", "margaret", "ken", "barbara")


def demo(
    fast: bool = typer.Option(False, "--fast", help="Do not pause between the steps."),
) -> None:
    """Show produce, consume, groups, replay and the queue, step by step."""
    try:
        asyncio.run(_tour(Tour(Console(highlight=False), pause_s=0.0 if fast or not sys.stdout.isatty() else 1.5)))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


class Tour:
    """Says what comes next and shows what came of it."""

    def __init__(self, console: Console, *, pause_s: float) -> None:
        self._console = console
        self._pause_s = pause_s
        self._step = 0

    async def step(self, title: str, command: str) -> None:
        """Announce a step, with the command that would do the same."""
        await asyncio.sleep(self._pause_s)
        self._step += 1
        self._console.print(f"\n[bold cyan]{self._step}. {title}[/]\n   [dim]$ {command}[/]")

    def line(self, text: str) -> None:
        """Show a result."""
        self._console.print(f"   {text}", markup=False)


async def _tour(tour: Tour) -> None:
    with tempfile.TemporaryDirectory(prefix="goqueue-demo-") as folder:
        plain = Config()
        node = assemble(
            replace(
                plain,
                broker=replace(plain.broker, data_dir=folder),
                listeners=replace(plain.listeners, kafka="127.0.0.1:0", http="127.0.0.1:0"),
            )
        )
        await tour.step("Start a broker", "goqueue server")
        running = await node.start()
        try:
            tour.line(f"Kafka clients connect to {running.kafka}, everything else to {running.http_url}")
            async with connect(running.http_url) as client:
                await _produce(tour, client)
                await _look(tour, client)
                await _share(tour, client)
                await _replay(tour, client)
                await _queue(tour, client)
        finally:
            await node.stop()
    tour.line("")
    tour.line("That was all on a temporary broker, which is gone now. Yours starts with: goqueue server")


async def _produce(tour: Tour, client: Client) -> None:
    await tour.step("Publish six orders", f"goqueue produce {TOPIC} --key ada --message '...'")
    await client.create_topic(TOPIC, partitions=3)
    async with client.producer(acks="all") as producer:
        for number, customer in enumerate(CUSTOMERS, start=1):
            sent = await producer.send_and_wait(TOPIC, f"order {number} of {customer}", key=customer)
            tour.line(f"order {number} of {customer:<9} -> partition {sent.partition}, offset {sent.offset}, on disk")


async def _look(tour: Tour, client: Client) -> None:
    await tour.step("Read them, as often as you like", f"goqueue consume {TOPIC} --from-beginning")
    for partition in range(3):
        messages, _ = await client.read(TOPIC, partition)
        for message in messages:
            tour.line(f"partition {message.partition} offset {message.offset}: {message.text}")


async def _share(tour: Tour, client: Client) -> None:
    await tour.step("Share the work between two members of a group", f"goqueue consume {TOPIC} --group billing")
    async with (
        client.consumer("billing", [TOPIC], client_id="first", poll_wait="200ms") as first,
        client.consumer("billing", [TOPIC], client_id="second", poll_wait="200ms") as second,
    ):
        await _until_shared(first, second)
        for name, consumer in (("first", first), ("second", second)):
            owned = ", ".join(str(at.partition) for at in sorted(consumer.assignment))
            tour.line(f"{name} member owns partition {owned}")
        seen = 0
        while seen < len(CUSTOMERS):
            for name, consumer in (("first", first), ("second", second)):
                for message in await consumer.poll(timeout="200ms"):
                    seen += 1
                    tour.line(f"{name} member got {message.text}")
    offsets = await client.group_offsets("billing")
    tour.line(f"the group has read everything: lag {offsets['total_lag']}")


async def _until_shared(first: Consumer, second: Consumer) -> None:
    async with asyncio.timeout(30):
        # Heartbeats move the partitions in the background; there is no event to wait for.
        while len(first.assignment) + len(second.assignment) < 3 or not first.assignment or not second.assignment:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _replay(tour: Tour, client: Client) -> None:
    await tour.step(
        "Rewind the group and read again", f"goqueue group reset-offsets billing --topic {TOPIC} --to-earliest"
    )
    for change in (await client.reset_offsets("billing", topic=TOPIC, to="earliest"))["changes"]:
        tour.line(f"partition {change['partition']}: {change['from']} -> {change['to']}")
    async with client.consumer("billing", [TOPIC], poll_wait="200ms") as consumer:
        again: list[Message] = []
        while len(again) < len(CUSTOMERS):
            again += await consumer.poll(timeout="500ms")
    tour.line(f"{len(again)} messages came a second time: nothing is gone just because it was read")


async def _queue(tour: Tour, client: Client) -> None:
    await tour.step(
        "Read the same topic as a queue, message by message", f"goqueue queue receive {TOPIC} --group cards"
    )
    async with client.producer() as producer:
        await producer.send_and_wait(TOPIC, "order 7 of nobody", priority="critical")
    async with client.queue(TOPIC, group="cards") as queue:
        done = 0
        while done < len(CUSTOMERS) + 1:
            for message in await queue.receive(limit=1):
                done += 1
                if message.priority == "critical":
                    await queue.reject(message, error="no such customer")
                    tour.line(f"{message.text} is critical, so it came early; it can never succeed: rejected")
                else:
                    await queue.ack(message)
                    tour.line(f"{message.text}: acked, and never seen again")
    await tour.step("Look at what died, and send it back", f"goqueue dlq redrive {TOPIC}")
    async with asyncio.timeout(30):
        while not (letters := (await client.dead_letters(TOPIC))["letters"]):  # noqa: ASYNC110 - it moves by itself
            await asyncio.sleep(0.05)
        tour.line(f"{letters[0]['message']['value']} lies in {TOPIC}.dlq: {letters[0].get('error')}")
        redriven = await (await client.redrive(TOPIC)).wait()
    tour.line(f"{redriven.redriven} sent back, with its history as headers")
