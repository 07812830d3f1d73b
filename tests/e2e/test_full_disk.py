"""A disk that is really full: everything goes on without a restart once there is room, delayed messages included."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time

import pytest
from confluent_kafka import Producer
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def broker(small_disk, tmp_path):
    process = BrokerProcess(tmp_path, environment={"GOQUEUE_DURABILITY_DISK_FREE_BYTES_MIN": "0"})
    process.data_dir = small_disk / "data"
    yield process.start()
    process.kill()


def fill(disk):
    """Leave no room on the disk; returns the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for piece in (65536, 512):
            with contextlib.suppress(OSError):
                while file.write(bytes(piece)):
                    pass
    return filler


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def values(http, topic):
    return [one["value"] for one in http.get(f"/topics/{topic}/partitions/0/messages?offset=0&limit=1000")["messages"]]


def checks(http):
    return http.ask("GET", "/readyz").body


def test_delayed_messages_are_delivered_after_the_disk_was_full_and_readiness_tells(broker, small_disk):
    http = Http(broker.http)
    for topic in ("later", "now"):
        http.post("/topics", {"name": topic, "num_partitions": 1})
    for number in range(10):
        http.post("/topics/later/messages", {"value": f"before-{number}", "delay": f"{1000 + 100 * number}ms"})
    filler = fill(small_disk)

    # Until all that was held is overdue: firing, delivering, settling and the index have met the full disk by then.
    until(lambda: http.ask("POST", "/topics/now/messages", {"value": "x" * 5000}).status == 507)
    until(lambda: "ENOSPC" in str(checks(http)))
    assert http.ask("GET", "/readyz").status == 503
    accepted: list[str] = []

    def the_index_fails():
        value = f"meanwhile-{len(accepted)}"
        if http.ask("POST", "/topics/later/messages", {"value": value, "delay": "1s"}).status == 200:
            accepted.append(value)
        return "the index of delayed messages could not be brought up to date" in broker.output

    until(the_index_fails, 30)
    assert http.ask("GET", "/readyz").status == 503
    assert "ENOSPC" in broker.output

    filler.unlink()

    until(lambda: http.ask("GET", "/readyz").status == 200)
    http.post("/topics/later/messages", {"value": "after", "delay": "100ms"})
    expected = [*(f"before-{number}" for number in range(10)), *accepted, "after"]
    until(lambda: len(values(http, "later")) >= len(expected))
    assert sorted(values(http, "later")) == sorted(expected)
    assert "writing succeeds again" in broker.output
    http.publish("now", "again")
    assert 'goqueue_storage_write_errors_total{error="ENOSPC"}' in http.ask("GET", "/metrics").body.decode()


@pytest.mark.parametrize(
    "settings", [{"acks": "all"}, {"acks": "1"}, {"enable.idempotence": True}], ids=["all", "one", "idempotent"]
)
def test_a_kafka_producer_retries_until_there_is_room(broker, small_disk, settings):
    http = Http(broker.http)
    http.post("/topics", {"name": "orders", "num_partitions": 1})
    delivered, errors = [], []
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 0, "log_level": 0, **settings})
    producer.produce("orders", b"0")
    assert producer.flush(20) == 0
    filler = fill(small_disk)

    for number in range(1, 6):
        producer.produce(
            "orders",
            f"{number}-".encode() + bytes(5000),
            on_delivery=lambda error, message: errors.append(error) if error else delivered.append(message.offset()),
        )
    # Several refusals: a client that tries only once more would have given up.
    until(lambda: producer.poll(0.05) or _refusals(http) >= 3)
    assert errors == []
    filler.unlink()

    assert producer.flush(60) == 0
    assert errors == []
    assert sorted(delivered) == [1, 2, 3, 4, 5]


def _refusals(http):
    page = http.ask("GET", "/metrics").body.decode()
    return sum(
        int(float(line.split()[-1]))
        for line in page.splitlines()
        if line.startswith("goqueue_storage_write_errors_total")
    )
