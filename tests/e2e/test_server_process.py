"""`goqueue server` as a process: how it starts, what it says, how it refuses and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.conftest import StartBroker
from tests.e2e.process import BrokerProcess

from goqueue.build_info import build_info
from goqueue.metadata.events import Assignment, Topic, TopicCreated
from goqueue.metadata.local import LocalMetadata
from goqueue.node.disk.os_files import OsFiles
from goqueue.node.system_clock import SystemClock

GOQUEUE = Path(sys.executable).parent / "goqueue"
README = Path(__file__).parents[2] / "README.md"


def get(broker: BrokerProcess, path: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://{broker.http}{path}", timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def refused(*arguments: str, **environment: str) -> str:
    """Run a broker that must not start; returns its one message."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
    result = subprocess.run(
        [str(GOQUEUE), "server", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=clean | environment,
    )
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.count("goqueue: ") == 1
    return result.stderr


def test_the_banner_comes_once_with_version_addresses_and_directory(broker: BrokerProcess) -> None:
    assert broker.output.count(f"GoQueue {version('goqueue')} is ready") == 1
    for text in (f"Kafka  {broker.kafka}", f"HTTP   http://{broker.http}", f"Data   {broker.data_dir}"):
        assert text in broker.output


@pytest.mark.parametrize("path", ["/health", "/healthz", "/livez", "/readyz", "/v1/health", "/v1/readyz"])
def test_health_routes_answer(broker: BrokerProcess, path: str) -> None:
    status, body = get(broker, path)
    assert status == 200
    assert body["status"] == "ok"


def test_readiness_names_what_it_checked(broker: BrokerProcess) -> None:
    _, body = get(broker, "/readyz")
    assert {check["name"] for check in body["checks"]} >= {"listeners", "disk", "metadata"}  # type: ignore[index, attr-defined]


def test_the_version_route_says_what_runs(broker: BrokerProcess) -> None:
    status, body = get(broker, "/version")
    assert status == 200
    build = build_info()
    assert (body["version"], body["commit"], body["built"]) == (version("goqueue"), build.commit, build.built)
    assert build.built


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_broker_stops_cleanly(start_broker: StartBroker, number: int) -> None:
    broker = start_broker()
    broker.signal(number)
    assert broker.wait() == 0
    assert not broker.ready_file.exists()
    assert broker.stop() == 0


def test_what_is_deleted_after_the_stop_stays_deleted(start_broker: StartBroker) -> None:
    """Tasks that outlived the stop wrote their files again."""
    broker = start_broker()
    group = broker.pid  # it leads a session of its own
    broker.stop()
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)  # nobody is left who could write
    shutil.rmtree(broker.data_dir)
    assert not broker.data_dir.exists()


def test_after_a_kill_it_starts_again_on_the_same_ports(start_broker: StartBroker) -> None:
    """A PID file kept the broker from starting after any unclean exit."""
    broker = start_broker()
    addresses = broker.kafka, broker.http
    for _ in range(3):
        broker.kill()
        broker.start()
        assert (broker.kafka, broker.http) == addresses
    assert broker.stop() == 0


def test_a_directory_in_use_is_refused_and_its_holder_is_not_disturbed(broker: BrokerProcess) -> None:
    before = sorted(path.name for path in broker.data_dir.iterdir())
    message = refused(f"--data-dir={broker.data_dir}", "--kafka=127.0.0.1:0", "--http=127.0.0.1:0")
    assert f"data directory {broker.data_dir} is in use by another process" in message
    assert sorted(path.name for path in broker.data_dir.iterdir()) == before
    assert get(broker, "/readyz")[0] == 200


def test_an_address_in_use_is_refused_and_nothing_is_touched(broker: BrokerProcess, tmp_path: Path) -> None:
    """A listener that failed was only logged, and the broker became ready."""
    message = refused(f"--data-dir={tmp_path}/data", f"--kafka={broker.kafka}", f"--http={broker.http}")
    assert f"cannot listen on {broker.kafka}: the address is in use" in message
    assert f"cannot listen on {broker.http}: the address is in use" in message
    assert list(tmp_path.iterdir()) == []


def test_all_wrong_settings_are_reported_at_once_and_nothing_is_touched(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("[log]\nsegmnt_bytes = 1\n")
    message = refused(
        f"--config={file}",
        f"--data-dir={tmp_path}/data",
        "--kafka=nonsense",
        "--http=0.0.0.0:8080",
        "--set=broker.default_partitions=0",
        GOQUEUE_BROKER_NODE="1",
    )
    assert "5 problems" in message
    assert "did you mean 'log.segment_bytes'?" in message
    assert "GOQUEUE_BROKER_NODE: unknown setting; did you mean 'GOQUEUE_BROKER_NODEID'?" in message
    assert "listeners.allow_insecure" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker.toml"]


def test_a_directory_that_cannot_be_is_refused() -> None:
    assert "/dev/null is not a directory" in refused("--data-dir=/dev/null/data")


def test_a_ready_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    message = refused(f"--data-dir={tmp_path}/data", f"--ready-file={tmp_path}/no/such/ready.json")
    assert "--ready-file" in message
    assert list(tmp_path.iterdir()) == []


def test_settings_reach_the_broker_from_file_variable_and_option(tmp_path: Path, start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_BROKER_NODEID=7)
    assert "(node 7)" in broker.output


def test_a_second_signal_does_not_wait_for_the_clean_stop(start_broker: StartBroker) -> None:
    broker = start_broker()
    # A frozen process has both signals pending when it thaws, and a stop takes longer than that.
    broker.signal(signal.SIGSTOP)
    broker.signal(signal.SIGTERM)
    broker.signal(signal.SIGINT)
    broker.signal(signal.SIGCONT)
    assert broker.wait() in {0, 128 + signal.SIGINT, 128 + signal.SIGTERM}


def test_a_client_that_says_nothing_does_not_hold_up_the_stop(start_broker: StartBroker) -> None:
    """The stop waited for what could not come any more."""
    broker = start_broker()
    host, port = broker.http.split(":")
    with socket.create_connection((host, int(port))):
        assert broker.stop() == 0


def run_readme(number: int, broker: BrokerProcess) -> str:
    """What a Python block of the README prints, with this broker in place of the one on the default ports."""
    snippet = re.findall(r"```python\n(.+?)```", README.read_text(), re.DOTALL)[number]
    snippet = snippet.replace("127.0.0.1:9092", broker.kafka).replace("127.0.0.1:8080", broker.http)
    result = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_readmes_first_publish_and_read_works(broker: BrokerProcess) -> None:
    assert run_readme(0, broker) == "b'greeting' b'hello'\n"


def test_the_readmes_queue_works(broker: BrokerProcess) -> None:
    assert run_readme(1, broker) == "b'resize cat.jpg' 1\n"


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_the_readmes_kcat_lines_work(broker: BrokerProcess) -> None:
    block = next(block for block in re.findall(r"```\n(.+?)```", README.read_text(), re.DOTALL) if "kcat -P" in block)
    lines = block.replace("127.0.0.1:9092", broker.kafka).replace("-t first", "-t first-kcat")
    result = subprocess.run(["bash", "-ec", lines], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == "hello\n", result.stderr


@pytest.fixture
def stopped_broker(start_broker: StartBroker) -> BrokerProcess:
    """Node 1, stopped, with one message in topic `orders`."""
    broker = start_broker()
    producer = Producer({"bootstrap.servers": broker.kafka, "log_level": 0})
    producer.produce("orders", b"one", partition=0)
    assert producer.flush(15) == 0
    broker.stop()
    return broker


@pytest.mark.parametrize("form", ["flag", "environment", "file"])
def test_data_of_another_node_is_refused_with_both_ids_the_directory_and_the_fix(
    stopped_broker: BrokerProcess, tmp_path: Path, form: str
) -> None:
    settings = tmp_path / "goqueue.toml"
    settings.write_text("[broker]\nnode_id = 2\n")
    arguments = {"flag": ["--node-id=2"], "environment": [], "file": [f"--config={settings}"]}[form]
    environment = {"GOQUEUE_BROKER_NODEID": "2"} if form == "environment" else {}
    listeners = ("--kafka=127.0.0.1:0", "--http=127.0.0.1:0")
    message = refused(f"--data-dir={stopped_broker.data_dir}", *listeners, *arguments, **environment)
    assert f"broker.node_id is 2, but the data in {stopped_broker.data_dir} belongs to node 1" in message
    assert "--node-id 1" in message
    # Nothing was changed: its own node finds all as it was.
    stopped_broker.start()
    assert read_values(stopped_broker, "orders") == [b"one"]


def test_a_node_takes_over_topics_that_an_earlier_version_left_to_another_node_id(
    stopped_broker: BrokerProcess,
) -> None:
    """Earlier versions started with any id on any data, and topics made then are led by that id."""
    other = Assignment(leader=7, leader_epoch=0, replicas=(7,), isr=(7,))
    asyncio.run(create_topic(stopped_broker.data_dir, TopicCreated(Topic("left", UUID(int=9), 1), (other,))))
    stopped_broker.start()
    assert "node 1 takes over 1 topics of another node id: left" in stopped_broker.output
    producer = Producer({"bootstrap.servers": stopped_broker.kafka, "log_level": 0})
    producer.produce("left", b"two", partition=0)
    assert producer.flush(15) == 0
    assert read_values(stopped_broker, "left") == [b"two"]
    assert read_values(stopped_broker, "orders") == [b"one"]


def read_values(broker: BrokerProcess, topic: str) -> list[bytes]:
    """What confluent-kafka reads of partition 0 up to its end; it hangs where the leader does not exist."""
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "g", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    try:
        while (message := consumer.poll(15)) is not None and message.error() is None:
            values.append(message.value())
        assert message is not None, "nothing came, and no end"
    finally:
        consumer.close()
    return values


async def create_topic(data_dir: Path, created: TopicCreated) -> None:
    async def at_once(work: Callable[[], None]) -> None:
        work()

    files = OsFiles(data_dir)
    try:
        metadata = LocalMetadata.open(files, clock=SystemClock(), rng=Random(1), offload=at_once)
        await metadata.commit([created])
        await metadata.close()
    finally:
        files.close()
