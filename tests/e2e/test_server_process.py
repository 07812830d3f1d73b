"""`goqueue server` as a process: how it starts, what it says, how it refuses and how it ends."""

from __future__ import annotations

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
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.process import BrokerProcess

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
    assert body["version"] == version("goqueue")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_broker_stops_cleanly(start_broker: StartBroker, number: int) -> None:
    broker = start_broker()
    broker.signal(number)
    assert broker.wait() == 0
    assert not broker.ready_file.exists()
    assert broker.stop() == 0


def test_what_is_deleted_after_the_stop_stays_deleted(start_broker: StartBroker) -> None:
    """L20: tasks that outlived the stop wrote their files again."""
    broker = start_broker()
    group = broker.pid  # it leads a session of its own
    broker.stop()
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)  # nobody is left who could write
    shutil.rmtree(broker.data_dir)
    assert not broker.data_dir.exists()


def test_after_a_kill_it_starts_again_on_the_same_ports(start_broker: StartBroker) -> None:
    """W33: a PID file kept the broker from starting after any unclean exit."""
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
    """W66: a listener that failed was only logged, and the broker became ready."""
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
    """W67: the stop waited for what could not come any more."""
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
