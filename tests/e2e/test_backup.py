"""`goqueue backup` as a user runs it: a running broker, a second process, a restored broker with the same messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.conftest import StartBroker
from tests.e2e.process import BrokerProcess

GOQUEUE = Path(sys.executable).parent / "goqueue"
MESSAGES = 2_000


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(GOQUEUE), "backup", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def taken(broker: BrokerProcess, store: Path, *options: str) -> dict[str, Any]:
    done = run(
        "create",
        "--data-dir",
        broker.data_dir,
        "--to",
        store,
        "--server",
        f"http://{broker.http}",
        "-o",
        "json",
        *options,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def produce(broker: BrokerProcess, count: int, value: str = "v") -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "acks": "all"})
    for number in range(count):
        producer.produce("orders", key=str(number), value=f"{value}{number}")
    assert producer.flush(20) == 0


def messages(broker: BrokerProcess) -> list[tuple[Any, ...]]:
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "look", "enable.partition.eof": True})
    places = [TopicPartition("orders", partition, 0) for partition in range(3)]
    consumer.assign(places)
    found, ended = [], 0
    while ended < len(places):
        message = consumer.poll(10)
        assert message is not None, "the broker does not answer"
        if message.error():
            ended += 1
        else:
            found.append((message.partition(), message.offset(), message.timestamp(), message.key(), message.value()))
    consumer.close()
    return sorted(found)


def test_a_backup_of_a_running_broker_is_verified_and_restored_with_the_same_offsets(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker()
    produce(broker, MESSAGES)
    before = messages(broker)
    outcome = taken(broker, tmp_path / "store")
    produce(broker, 10, "later")

    verified = run("verify", "--from", tmp_path / "store", "-o", "json")
    laid = run("restore", "--from", tmp_path / "store", "--data-dir", tmp_path / "copy" / "data")

    assert outcome["ok"]
    assert outcome["broker"] == "running"
    assert verified.returncode == 0, verified.stderr
    assert laid.returncode == 0, laid.stderr
    copy = BrokerProcess(tmp_path / "copy").start()
    try:
        assert len(before) == MESSAGES
        assert messages(copy) == before
    finally:
        copy.kill()


def test_a_second_backup_is_incremental_and_listed(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(GOQUEUE_LOG_SEGMENT_BYTES=20_000)
    for _ in range(4):
        produce(broker, MESSAGES)
    first = taken(broker, tmp_path / "store")
    produce(broker, 10, "later")

    second = taken(broker, tmp_path / "store")
    listed = json.loads(run("list", "--from", tmp_path / "store", "-o", "json").stdout)

    assert second["parent"] == first["backup"]
    assert second["files_unchanged"] > 0
    assert second["bytes_to_read"] < first["bytes_to_read"]
    assert [row["backup"] for row in listed] == [first["backup"], second["backup"]]


def test_a_stopped_broker_is_backed_up_without_asking_it(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    produce(broker, 10)
    broker.stop()

    done = run("create", "--data-dir", broker.data_dir, "--to", tmp_path / "store", "--stopped", "-o", "json")

    assert json.loads(done.stdout)["broker"] == "stopped"


def test_damage_is_told_with_the_files_name_and_exit_code_1(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    produce(broker, MESSAGES)
    taken(broker, tmp_path / "store")
    damaged = max(
        (tmp_path / "store" / "objects").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0
    )
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)

    done = run("verify", "--from", tmp_path / "store")

    assert done.returncode == 1
    assert "logs/orders/" in done.stderr


def test_what_cannot_be_done_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    nowhere = run("create", "--data-dir", tmp_path, "--to", tmp_path / "store", "--stopped")
    empty = run("restore", "--from", tmp_path / "store", "--data-dir", tmp_path / "new")
    scheme = run("list", "--from", "s4://bucket")

    assert nowhere.stderr == f"error: {tmp_path} is not the data directory of a broker\n"
    assert empty.stderr == f"error: there is no backup in {tmp_path / 'store'}\n"
    assert "s4://bucket: there is no scheme 's4'" in scheme.stderr
    assert {nowhere.returncode, empty.returncode, scheme.returncode} == {1}


def test_a_folder_that_cannot_be_written_is_named(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    (tmp_path / "file").touch()

    done = run(
        "create",
        "--data-dir",
        broker.data_dir,
        "--to",
        tmp_path / "file" / "store",
        "--server",
        f"http://{broker.http}",
    )

    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr
