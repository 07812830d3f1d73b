"""What a user does first, with an installed GoQueue: start it, publish and read with two clients, stop it.

    python -I smoke.py SCRATCH_FOLDER

It needs the goqueue package alone (its Kafka client, aiokafka, is a dependency), and pytest for the fixtures.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "goqueue"
SECONDS_MAX = 30

FIXTURE_TEST = """
def test_a_delayed_message_comes_in_time(goqueue_broker, goqueue_clock):
    client = goqueue_broker.client()
    client.create_topic("reminders")
    with client.producer() as producer:
        producer.send("reminders", "call back", delay="1h")
    with client.queue("reminders") as queue:
        assert queue.receive() == []
        goqueue_clock.advance(hours=1)
        (message,) = queue.receive(wait_ms=5000)
        assert message.value == b"call back"
"""


def main() -> None:
    """Run every step; an assertion that fails ends the program."""
    home = Path(sys.argv[1])
    versions()
    server = start(home, [str(PROGRAM), "server"])
    try:
        ready = wait_ready(home, server)
        with_the_python_client(ready["http"])
        asyncio.run(with_a_kafka_client(ready["kafka"]))
        health(ready["http"])
        backed_up(home, ready["http"])
    finally:
        stop(server)
    again = start(home, [sys.executable, "-I", "-m", "goqueue", "server"])
    try:
        kept(wait_ready(home, again)["http"])
    finally:
        stop(again)
    fixtures(home)
    print("- smoke test passed")


def versions() -> None:
    """All names of the program say the same version, with its commit and build time."""
    assert importlib.util.find_spec("pyspark") is None, "the environment is not clean"
    names = ("goqueue", "goqueue-cli", "goqueue-admin")
    told = {output(str(PROGRAM.with_name(name)), "version") for name in names}
    told.add(output(sys.executable, "-I", "-m", "goqueue", "version"))
    assert len(told) == 1, told
    (text,) = told
    assert "built 20" in text, text
    print(f"- {text.strip()}")


def start(home: Path, command: list[str]) -> subprocess.Popen[bytes]:
    """A broker on free ports."""
    places = ["--data-dir", str(home / "data"), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    return subprocess.Popen([*command, *places, "--ready-file", str(home / "ready.json")])


def wait_ready(home: Path, server: subprocess.Popen[bytes]) -> dict[str, str]:
    """The addresses, once the broker serves."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (home / "ready.json").exists():
        assert server.poll() is None, "the broker ended"
        assert time.monotonic() < deadline, "the broker was not ready in time"
        time.sleep(0.02)
    ready: dict[str, str] = json.loads((home / "ready.json").read_text())
    return ready


def with_the_python_client(http: str) -> None:
    """Publish and take as a queue."""
    from goqueue.client import sync

    with sync.connect(f"http://{http}") as client:
        client.create_topic("errands")
        with client.producer() as producer:
            producer.send("errands", "resize cat.jpg")
        with client.queue("errands") as queue:
            (message,) = queue.receive(wait_ms=5000)
            assert message.value == b"resize cat.jpg"
            queue.ack(message)
    print("- the Python client published and took a message")


async def with_a_kafka_client(kafka: str) -> None:
    """Publish and read as a stream."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=kafka, acks="all") as producer:
        sent = await producer.send_and_wait("greetings", b"hello")
    async with AIOKafkaConsumer("greetings", bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        message = await asyncio.wait_for(consumer.getone(), SECONDS_MAX)
    assert (message.value, message.offset) == (b"hello", sent.offset)
    print("- a Kafka client published and read a message")


def health(http: str) -> None:
    """The command that a container's health check calls."""
    output(str(PROGRAM.with_name("goqueue-cli")), "health", "--server", f"http://{http}")


def backed_up(home: Path, http: str) -> None:
    """A backup is taken and verified, with what an ordinary installation brings."""
    program, store = str(PROGRAM), str(home / "backups")
    output(program, "backup", "create", "--data-dir", str(home / "data"), "--to", store, "--server", f"http://{http}")
    output(program, "backup", "verify", "--from", store)
    print("- a backup was taken and verified")


def kept(http: str) -> None:
    """After a restart (by `python -m goqueue`) the messages are there."""
    from goqueue.client import sync

    with sync.connect(f"http://{http}") as client:
        stats = client.get("/stats")
    assert stats["topic_stats"]["greetings"]["messages"] == 1, stats
    print("- the messages are there after a restart")


def fixtures(home: Path) -> None:
    """The pytest plugin is found without any configuration."""
    test = home / "test_reminders.py"
    test.write_text(FIXTURE_TEST)
    output(sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test))
    print("- the pytest fixtures work")


def stop(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM ends it cleanly."""
    server.send_signal(signal.SIGTERM)
    assert server.wait(SECONDS_MAX) == 0, "the broker did not stop cleanly"


def output(*command: str) -> str:
    """What a command prints; it must succeed."""
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}{finished.stderr}"
    return finished.stdout


if __name__ == "__main__":
    main()
