"""kcat, as an operator uses it: an older librdkafka, driven from the command line."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from tests.e2e.process import BrokerProcess

KCAT = shutil.which("kcat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed: apt-get install kcat")


def kcat(broker: BrokerProcess, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        [str(KCAT), "-b", broker.kafka, *arguments], input=text, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def consumed(broker: BrokerProcess, topic: str, *arguments: str) -> list[dict[str, object]]:
    output = kcat(broker, "-C", "-t", topic, "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(broker: BrokerProcess, compression: str) -> None:
    topic = f"kcat-{compression}"
    lines = [f"line {at}" for at in range(200)]
    kcat(broker, "-P", "-t", topic, "-p", "0", "-z", compression, text="\n".join(lines) + "\n")
    got = consumed(broker, topic, "-p", "0", "-o", "beginning")
    assert [one["payload"] for one in got] == lines
    assert [one["offset"] for one in got] == list(range(200))


def test_an_older_librdkafka_compresses_too(broker: BrokerProcess) -> None:
    """KAFKA-18659: before 2.10 it did not, unless Produce 0 is listed."""
    arguments = ["-P", "-t", "kcat-debug", "-p", "0", "-z", "snappy", "-X", "debug=msg"]
    done = subprocess.run(
        [str(KCAT), "-b", broker.kafka, *arguments],
        input="a" * 1000 + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert "does not support compression" not in done.stderr
    assert "snappy" in done.stderr


def test_keys_headers_and_empty_values_are_kept(broker: BrokerProcess) -> None:
    arguments = ["-P", "-t", "kcat-keys", "-p", "0", "-K", ":", "-Z", "-H", "color=red", "-H", "size=9"]
    kcat(broker, *arguments, text="a:1\nb:\n")
    first, second = consumed(broker, "kcat-keys", "-p", "0", "-o", "beginning")
    assert (first["key"], first["payload"], first["headers"]) == ("a", "1", ["color", "red", "size", "9"])
    assert (second["key"], second["payload"]) == ("b", None)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acks_is_taken(broker: BrokerProcess, acks: str) -> None:
    topic = f"kcat-acks-{acks}"
    kcat(broker, "-P", "-t", topic, "-p", "0", "-X", f"acks={acks}", text="one\ntwo\n")
    assert [one["payload"] for one in consumed(broker, topic, "-p", "0", "-o", "beginning")] == ["one", "two"]


def test_reading_begins_where_it_is_told_to(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "kcat-from", "-p", "0", text="".join(f"{at}\n" for at in range(10)))
    assert [one["payload"] for one in consumed(broker, "kcat-from", "-p", "0", "-o", "7")] == ["7", "8", "9"]
    assert [one["payload"] for one in consumed(broker, "kcat-from", "-p", "0", "-o", "-2")] == ["8", "9"]
    assert [one["payload"] for one in consumed(broker, "kcat-from", "-p", "0", "-o", "s@0", "-c", "1")] == ["0"]


def test_the_cluster_and_offsets_are_listed(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "kcat-list", "-p", "1", text="x\n")
    listed = json.loads(kcat(broker, "-L", "-J", "-t", "kcat-list"))
    assert [one["name"] for one in listed["brokers"]] == [broker.kafka]
    assert [len(one["partitions"]) for one in listed["topics"]] == [3]
    assert "kcat-list [1] offset 1" in kcat(broker, "-Q", "-t", "kcat-list:1:-1")


def test_a_group_reads_each_message_once(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "kcat-group", text="".join(f"{at}\n" for at in range(30)))
    arguments = ["-G", "kcat", "-e", "-q", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000"]
    first = kcat(broker, *arguments, "kcat-group")
    assert sorted(map(int, first.split())) == list(range(30))
    assert kcat(broker, *arguments, "kcat-group") == ""
