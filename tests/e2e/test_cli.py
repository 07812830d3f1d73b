"""The command line as a shell sees it: output, exit codes, pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from tests.e2e.http import Http

GOQUEUE = Path(sys.executable).parent / "goqueue"


@pytest.fixture
def cli(broker, tmp_path):
    """Run `goqueue ARGS` against the broker; returns the finished process."""
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}", "HOME": str(tmp_path)}

    def run(*arguments, stdin=None, server=True, **extra):
        env = {**environment, **extra}
        if not server:
            env.pop("GOQUEUE_SERVER")
        return subprocess.run(
            [GOQUEUE, *arguments], input=stdin, capture_output=True, text=True, env=env, timeout=60, check=False
        )

    return run


def as_json(finished):
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_a_topic_lives_and_dies_on_the_command_line(cli):
    assert "created topic cli-life" in cli("topic", "create", "cli-life", "-p", "2", "-r", "1").stdout
    assert {"name": "cli-life", "partitions": 2, "internal": False} in as_json(cli("topic", "list", "-o", "json"))
    cli("topic", "alter", "cli-life", "--config", "cleanup.policy=compact", "-p", "3")
    described = yaml.safe_load(cli("topic", "describe", "cli-life", "-o", "yaml").stdout)
    assert (described["partitions"], described["overrides"]["cleanup.policy"]) == (3, "compact")
    cli("topic", "alter", "cli-life", "--unset", "cleanup.policy")
    assert as_json(cli("topic", "describe", "cli-life", "-o", "json"))["overrides"] == {"retention.ms": "3600000"}
    assert cli("topic", "delete", "cli-life", "--force").returncode == 0
    assert cli("topic", "describe", "cli-life").returncode == 1


def test_deleting_without_a_terminal_needs_force(cli):
    cli("topic", "create", "cli-precious")

    finished = cli("topic", "delete", "cli-precious", stdin="yes\n")

    assert finished.returncode == 2
    assert "--force" in finished.stderr
    assert cli("topic", "describe", "cli-precious").returncode == 0


def test_lines_of_standard_input_become_messages(cli):
    cli("topic", "create", "cli-lines", "-p", "1")

    assert "3 sent, 0 failed" in cli("produce", "cli-lines", stdin="one\ntwo\nthree").stderr

    assert cli("consume", "cli-lines").stdout.splitlines() == ["one", "two", "three"]


def test_produce_takes_the_value_as_an_argument(cli):
    cli("produce", "cli-argument", "--create", "hello world")

    assert "hello world" in cli("consume", "cli-argument", "--from-beginning").stdout
    twice = cli("produce", "cli-argument", "a", "-m", "b")
    assert (twice.returncode, "given twice" in twice.stderr) == (2, True)


def test_a_file_of_json_lines_is_sent_with_keys_and_headers(cli, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "# a comment\n"
        '{"value": "a", "key": "k", "headers": {"h": "1"}, "partition": 0, "timestamp": 1700000000000}\n'
        "\n"
        '{"value": {"x": 1}, "partition": 0}\n'
        "not json at all\n"
    )
    cli("topic", "create", "cli-file", "-p", "1")

    assert "3 sent, 0 failed" in cli("produce", "cli-file", "-f", str(rows)).stderr

    first, second, third = [
        json.loads(line) for line in cli("consume", "cli-file", "--format", "json").stdout.splitlines()
    ]
    assert (first["key"], first["headers"], first["timestamp"]) == ("k", {"h": "1"}, 1700000000000)
    assert (second["value"], third["value"]) == ('{"x": 1}', "not json at all")


def test_what_generate_prints_is_what_produce_takes_from_standard_input(cli):
    cli("topic", "create", "cli-piped", "-p", "1")
    printed = cli("pipeline", "generate", "clicks", "--count", "20", "--bad", "0").stdout

    assert "20 sent, 0 failed" in cli("produce", "cli-piped", "-f", "-", stdin=printed).stderr

    rows = [json.loads(line) for line in cli("consume", "cli-piped", "--format", "json").stdout.splitlines()]
    assert [(row["key"], json.loads(row["value"])["click_id"]) for row in rows] == [(f"c{n}",) * 2 for n in range(20)]


def test_a_file_with_an_unknown_field_is_refused_by_line(cli, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"value": "a", "colour": "red"}\n')

    finished = cli("produce", "cli-typo", "--create", "-f", str(rows))

    assert finished.returncode == 1
    assert "line 1: unknown field 'colour'" in finished.stderr


def test_a_message_that_is_refused_gives_exit_code_1(cli):
    cli("topic", "create", "cli-narrow", "-p", "1")

    finished = cli("produce", "cli-narrow", "-m", "x", "-p", "7")

    assert finished.returncode == 1
    assert "no partition 7" in finished.stderr


def test_consuming_from_an_offset_a_time_and_up_to_a_limit(cli, broker):
    http = Http(broker.http)
    # Kept for ever: the times are years ago, and a round of retention would take the messages in between.
    http.post("/topics", {"name": "cli-range", "num_partitions": 1, "config": {"retention.ms": "-1"}})
    http.post(
        "/topics/cli-range/messages",
        {"messages": [{"value": str(n), "timestamp": 1_700_000_000_000 + n * 1000} for n in range(10)]},
    )

    def values(*options):
        return cli("consume", "cli-range", *options).stdout.split()

    assert values("-p", "0", "--offset", "7") == ["7", "8", "9"]
    assert values("-n", "2") == ["0", "1"]
    assert values("--from-time", "1700000008000") == ["8", "9"]
    assert values("--from-time", "2023-11-14T22:13:21+00:00", "--to-time", "2023-11-14T22:13:23+00:00") == [
        "1",
        "2",
        "3",
    ]


def test_a_group_reads_on_and_its_lag_is_shown_and_reset(cli):
    cli("topic", "create", "cli-group", "-p", "1")
    cli("produce", "cli-group", stdin="a\nb\nc\n")

    assert cli("consume", "cli-group", "--group", "cli-readers", "-n", "2").stdout.split() == ["a", "b"]
    assert cli("consume", "cli-group", "--group", "cli-readers").stdout.split() == ["c"]
    assert as_json(cli("group", "offsets", "cli-readers", "-o", "json"))["total_lag"] == 0

    dry = cli("group", "reset-offsets", "cli-readers", "--topic", "cli-group", "--to-earliest", "--dry-run")
    assert "nothing was changed" in dry.stdout
    cli("group", "reset-offsets", "cli-readers", "--topic", "cli-group", "--shift-by", "-1")
    (row,) = as_json(cli("group", "describe", "cli-readers", "-o", "json"))["offsets"]
    assert (row["committed"], row["lag"]) == (2, 1)
    assert "cli-readers" in cli("group", "list").stdout
    assert cli("group", "delete", "cli-readers", "-f").returncode == 0


def test_following_ends_cleanly_with_ctrl_c(cli, broker):
    cli("topic", "create", "cli-follow", "-p", "1")
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"}
    with subprocess.Popen(
        [GOQUEUE, "consume", "cli-follow", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell that runs the tests in the background has switched ctrl-C off for all of them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - nothing else runs in the child
    ) as following:
        cli("produce", "cli-follow", "-m", "hello")
        assert following.stdout.readline() == "hello\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(15) == 130
        assert following.stderr.read() == ""


def test_a_new_group_that_begins_with_what_comes_next_waits_for_it(cli, broker):
    cli("topic", "create", "cli-next", "-p", "1")
    cli("produce", "cli-next", "-m", "old")
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"}
    command = [GOQUEUE, "consume", "cli-next", "--group", "cli-next", "--from-latest", "-n", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as following:
        http, deadline = Http(broker.http), time.monotonic() + 30
        while following.poll() is None and time.monotonic() < deadline:
            # Where it began is known only to it, so messages come until one is seen.
            http.publish("cli-next", "new")
            time.sleep(0.1)
        assert following.returncode == 0
        assert following.stdout.read() == "new\n"


def test_a_reader_that_has_seen_enough_is_no_error(cli, broker):
    cli("produce", "cli-pipe", "--create", stdin="\n".join(map(str, range(2000))))

    finished = subprocess.run(
        f"GOQUEUE_SERVER=http://{broker.http} {GOQUEUE} consume cli-pipe | head -1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert finished.stderr == ""


def test_contexts_are_stored_and_used(cli, broker, tmp_path):
    cli("config", "set-context", "here", "--server", f"http://{broker.http}", server=False)
    assert "current context is here" in cli("config", "use-context", "here", server=False).stdout

    assert cli("topic", "list", server=False).returncode == 0
    assert (tmp_path / ".goqueue" / "config.yaml").stat().st_mode & 0o777 == 0o600
    assert cli("topic", "list", "--context", "nowhere", server=False).returncode == 2
    assert "here" in cli("config", "get-contexts", server=False).stdout
    cli("config", "delete-context", "here", server=False)
    assert "here" not in cli("config", "view", server=False).stdout.replace("current-context: here", "")


def test_health_has_an_exit_code_for_containers(cli):
    assert cli("health").returncode == 0
    nobody = cli("health", "--server", "http://127.0.0.1:9")
    assert nobody.returncode == 3
    assert "no answer" in nobody.stderr


def test_the_cluster_is_shown(cli):
    assert as_json(cli("cluster", "info", "-o", "json"))["nodes"] == 1
    assert as_json(cli("cluster", "nodes", "-o", "json"))[0]["status"] == "alive"


def test_bench_verifies_what_it_measures(cli):
    result = as_json(cli("bench", "-n", "2000", "-o", "json"))

    assert (result["stored"], result["read"], result["verified"]) == (2000, 2000, True)


def test_the_demo_tells_its_whole_story(cli):
    finished = cli("demo", "--fast")

    assert finished.returncode == 0, finished.stderr
    for part in ("Start a broker", "Publish six orders", "Share the work", "lag 0", "6 messages came a second time"):
        assert part in finished.stdout


@pytest.mark.parametrize("name", ["goqueue", "goqueue-cli", "goqueue-admin"])
def test_the_program_goes_by_three_names(name):
    finished = subprocess.run([GOQUEUE.with_name(name), "version"], capture_output=True, text=True, check=True)

    assert finished.stdout.startswith("goqueue ")


def test_interactive_input_goes_out_line_by_line(cli, broker):
    cli("topic", "create", "cli-typed", "-p", "1")
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"}
    with subprocess.Popen(
        [GOQUEUE, "produce", "cli-typed", "-q"], stdin=subprocess.PIPE, text=True, env=environment
    ) as typing:
        typing.stdin.write("first\n")
        typing.stdin.flush()
        http, deadline = Http(broker.http), time.monotonic() + 15
        while http.get("/topics/cli-typed")["total_messages"] == 0:
            assert time.monotonic() < deadline, "the line waited for the next one"
        typing.stdin.close()
        assert typing.wait(15) == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--partition", "7"], "topic 'cli-places' has no partition 7"),
        (["--partition", "0", "--offset", "99"], "offset 99 is outside the log, which holds 0 to 1"),
    ],
)
def test_reading_where_nothing_can_be_is_refused(cli, arguments, problem):
    cli("topic", "create", "cli-places", "-p", "1")
    if as_json(cli("topic", "describe", "cli-places", "-o", "json"))["total_messages"] == 0:
        cli("produce", "cli-places", "-m", "one")

    finished = cli("consume", "cli-places", *arguments)

    assert (finished.returncode, finished.stdout) == (1, "")
    assert problem in finished.stderr


def test_commands_that_change_something_answer_in_json(cli):
    cli("topic", "create", "cli-facts", "-p", "1")

    sent = as_json(cli("produce", "cli-facts", "-m", "now", "-o", "json"))
    assert (sent["topic"], sent["partition"], sent["offset"], sent["delayed"]) == ("cli-facts", 0, 0, False)
    assert as_json(cli("produce", "cli-facts", "-o", "json", stdin="a\nb\n")) == {
        "topic": "cli-facts",
        "sent": 2,
        "failed": 0,
    }
    later = as_json(cli("produce", "cli-facts", "-m", "later", "--delay", "24h", "-o", "json"))
    slot = later["slot"]
    moved = as_json(cli("delayed", "reschedule", "cli-facts", slot, "--delay", "48h", "-o", "json"))
    assert moved["deliver_at"] > later["deliver_at"]
    assert as_json(cli("delayed", "cancel", "cli-facts", slot, "-o", "json"))["canceled"] is True
    created = (
        "schedule",
        "create",
        "cli-facts",
        "--cron",
        "0 7 * * *",
        "--topic",
        "cli-facts",
        "-m",
        "x",
        "-o",
        "json",
    )
    assert len(as_json(cli(*created))["next_runs"]) == 3
    assert as_json(cli("schedule", "delete", "cli-facts", "--force", "-o", "json"))["deleted"] is True
    assert as_json(cli("topic", "delete", "cli-facts", "--force", "-o", "json")) == {
        "deleted": True,
        "name": "cli-facts",
    }
