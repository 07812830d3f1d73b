"""The queue on the command line: receipts, dead letters, policies, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

GOQUEUE = Path(sys.executable).parent / "goqueue"


@pytest.fixture
def cli(broker, tmp_path):
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}", "HOME": str(tmp_path)}

    def run(*arguments, stdin=None):
        return subprocess.run(
            [GOQUEUE, *arguments], input=stdin, capture_output=True, text=True, env=environment, timeout=60, check=False
        )

    return run


def as_json(finished):
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_a_message_is_taken_and_settled(cli):
    cli("topic", "create", "cli-queue", "-p", "1")
    cli("produce", "cli-queue", "-m", "a", "--priority", "high")
    cli("produce", "cli-queue", "-m", "b")

    first, second = as_json(cli("queue", "receive", "cli-queue", "-g", "cli", "-n", "5", "--wait", "5s", "-o", "json"))
    assert (first["value"], first["priority"], second["priority"]) == ("a", "high", "normal")
    assert cli("queue", "receive", "cli-queue", "-g", "cli").stderr.strip() == "no messages"

    assert "extended cli-queue/0@0" in cli("queue", "extend", first["receipt_handle"], "--by", "1m").stdout
    assert "acked cli-queue/0@0" in cli("queue", "ack", first["receipt_handle"], "--durable").stdout
    (result,) = yaml.safe_load(cli("queue", "nack", second["receipt_handle"], "-d", "0s", "-o", "yaml").stdout)
    assert (result["action"], result["offset"]) == ("requeued", 1)
    shown = cli("queue", "receive", "cli-queue", "-g", "cli", "--wait", "5s", "--ack").stdout
    assert "cli-queue/0@1 normal delivery 2 b" in shown
    assert as_json(cli("group", "offsets", "cli", "-o", "json"))["total_lag"] == 0


def test_a_receipt_that_is_no_good_gives_exit_code_1_and_says_why(cli):
    finished = cli("queue", "ack", "nonsense")

    assert finished.returncode == 1
    assert "nonsense" in finished.stderr
    assert cli("queue", "receive", "cli-queue", "--wait", "soon").returncode == 2
    assert cli("queue", "receive", "no-such-topic").returncode == 1
    assert cli("produce", "cli-queue", "-m", "x", "--priority", "urgent").returncode == 2


def test_dead_letters_are_looked_at_sent_back_and_purged(cli):
    cli("topic", "create", "cli-dead", "-p", "1")
    cli("produce", "cli-dead", stdin="a\nb\nc\n")
    rows = as_json(cli("queue", "receive", "cli-dead", "-g", "cli", "-n", "3", "--wait", "5s", "-o", "json"))
    assert "dead letter in cli-dead.dlq" in cli("queue", "reject", rows[0]["receipt_handle"], "-r", "bad").stdout
    cli("queue", "reject", rows[1]["receipt_handle"], rows[2]["receipt_handle"], "-r", "worse")
    deadline = time.monotonic() + 15
    while len(letters := as_json(cli("dlq", "list", "cli-dead", "-o", "json"))) < 3:
        assert time.monotonic() < deadline

    assert [one["message"]["value"] for one in letters] == ["a", "b", "c"]
    assert "cli-dead/0@1" in cli("dlq", "list", "cli-dead").stdout
    assert as_json(cli("dlq", "peek", "cli-dead", "--offset", "2", "-o", "json"))["message"]["value"] == "c"
    assert cli("dlq", "peek", "cli-dead", "--offset", "9").returncode == 1
    assert "3 of 3 would be sent" in cli("dlq", "redrive", "cli-dead", "--dry-run").stdout
    assert "2 sent back, 0 failed" in cli("dlq", "redrive", "cli-dead", "-n", "2", "--set-header", "m=1").stdout
    assert as_json(cli("dlq", "redrive", "cli-dead", "--all-groups", "-o", "json"))["redriven"] == 1
    # The group in which the broker reads dead letters is its own.
    assert "goqueue-redrive" not in cli("group", "list").stdout
    assert "goqueue-redrive" in cli("group", "list", "--internal").stdout
    values = [json.loads(line) for line in cli("consume", "cli-dead", "--format", "json").stdout.splitlines()]
    assert [one["value"] for one in values] == ["a", "b", "c", "a", "b", "c"]
    assert [one["headers"].get("m") for one in values[3:]] == ["1", "1", None]
    assert cli("dlq", "purge", "cli-dead").returncode == 2
    assert "deleted 3" in cli("dlq", "purge", "cli-dead", "-f").stdout
    assert as_json(cli("dlq", "list", "cli-dead", "-o", "json")) == []


def test_policies_and_statistics_are_shown_and_changed(cli):
    cli("topic", "create", "cli-policy", "-p", "1")
    cli("queue", "receive", "cli-policy", "-g", "cli-policies")

    changed = as_json(cli("queue", "policy", "cli-policies", "--set", "retries_max=9", "-o", "json"))
    assert changed["effective"]["retries_max"] == 9
    assert "retries max" in cli("queue", "policy", "cli-policies", "-t", "cli-policy").stdout
    assert as_json(cli("queue", "policy", "cli-policies", "--unset", "retries_max", "-o", "json"))["overrides"] == {}
    assert cli("queue", "policy", "nobody").returncode == 1
    assert "acked_total" in as_json(cli("queue", "stats", "-o", "json"))["ack_manager"]
    shown = cli("queue", "stats").stdout
    assert "leases expired" in shown
    assert "LIMIT REACHED" in shown
    assert "critical" in cli("queue", "stats", "--priority").stdout


def test_statistics_of_one_topic_leave_the_others_out(cli):
    for topic, handled in (("cli-stats", 2), ("cli-stats-other", 1)):
        cli("topic", "create", topic, "-p", "1")
        cli("produce", topic, stdin="a\nb\nc\n")
        cli("queue", "receive", topic, "-g", "cli-stats", "-n", str(handled), "--wait", "5s", "--ack")
    (held,) = as_json(cli("queue", "receive", "cli-stats", "-g", "cli-stats", "--wait", "5s", "-o", "json"))

    found = as_json(cli("queue", "stats", "cli-stats", "-o", "json"))
    assert (found["ack_manager"]["acked_total"], found["visibility_tracker"]["in_flight"]) == (2, 1)
    assert [(row["topic"], row["in_flight"]) for row in found["queues"]] == [("cli-stats", 1)]
    lanes = as_json(cli("queue", "stats", "cli-stats-other", "--priority", "-o", "json"))
    assert list(lanes["topics"]) == ["cli-stats-other"]
    assert (lanes["ready_by_priority"][2], lanes["delivered_by_priority"][2]) == (2, 1)
    assert "cli-stats-other" not in cli("queue", "stats", "cli-stats").stdout

    cli("queue", "reject", held["receipt_handle"], "-r", "bad", "--durable")
    deadline = time.monotonic() + 15
    while (dead := as_json(cli("queue", "stats", "cli-stats", "-o", "json"))["dlq"])["dead_lettered_total"] == 0:
        assert time.monotonic() < deadline
    assert (dead["by_topic"], dead["failures_total"]) == ({"cli-stats": 1}, 0)
    assert as_json(cli("queue", "stats", "cli-stats-other", "-o", "json"))["dlq"]["by_topic"] == {}

    unknown = cli("queue", "stats", "no-such-topic")
    assert unknown.returncode == 1
    assert "no-such-topic" in unknown.stderr


def test_a_repeat_is_told_from_the_first(cli):
    cli("topic", "create", "cli-dedup", "--config", "goqueue.dedup.window.ms=60000")

    assert "stored before" not in cli("produce", "cli-dedup", "-m", "x", "--dedup-id", "1").stdout
    assert "stored before" in cli("produce", "cli-dedup", "-m", "x", "--dedup-id", "1").stdout
    assert cli("produce", "cli-dedup", "--dedup-id", "1", stdin="x").returncode == 2


def test_square_brackets_in_messages_and_names_are_shown_as_they_are(cli):
    cli("topic", "create", "cli-brackets", "-p", "1")
    cli("produce", "cli-brackets", "-m", "see [docs] and [/nope]")
    (taken,) = as_json(cli("queue", "receive", "cli-brackets", "-g", "[team]", "--wait", "5s", "-o", "json"))
    cli("queue", "reject", taken["receipt_handle"], "--error", "[/bad] request", "--durable")

    listed = cli("dlq", "list", "cli-brackets")

    assert listed.returncode == 0, listed.stderr
    assert "see [docs] and [/nope]" in listed.stdout
    assert "[/bad] request" in listed.stdout
    assert "[team]" in cli("group", "list").stdout


def test_a_limit_of_nothing_is_wrong_usage(cli):
    assert cli("queue", "receive", "cli-queue", "--limit", "0").returncode == 2
