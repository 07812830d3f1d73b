"""`queue.run`: threads, processes and coroutines, time limits, hooks, and a stop that gives back what is not done."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.e2e import slow_handlers, worker_handlers

from goqueue.client import Hooks, InvalidArgument, Reject, Retry, TimeLimitExceeded, connect, sync

numbers = itertools.count()


def until(condition, seconds_max=30.0):
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


@pytest.fixture
def client(broker):
    with sync.connect(f"http://{broker.http}") as connected:
        yield connected


@pytest.fixture
def topic(client):
    name = f"run-{next(numbers)}"
    client.create_topic(name, partitions=1)
    with client.queue(name, group=name) as queue:
        assert queue.receive(wait=0) == []
    client.alter_policy(name, backoff="1ms", backoff_max="1ms", retries_max=1)
    return name


def send(client, topic, *values):
    with client.producer() as producer:
        for value in values:
            producer.send(topic, value)


class Running:
    """`queue.run` in a thread of ours, until the block is left."""

    def __init__(self, client, topic, handler, **how):
        self.queue = client.queue(topic, group=topic)
        self._thread = threading.Thread(target=self.queue.run, args=(handler,), kwargs=how)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.queue.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.queue.close()


def test_functions_run_in_threads_side_by_side(client, topic):
    meeting = threading.Barrier(4)
    names = set()

    def handle(message):
        meeting.wait(20)
        names.add(threading.current_thread().name)

    send(client, topic, *"abcd")
    with Running(client, topic, handle, concurrency=4):
        until(lambda: len(names) == 4)
    assert client.queue(topic, group=topic).receive(wait=0) == []


def test_coroutines_run_on_the_loop(client, topic):
    seen = []

    async def handle(message):
        await asyncio.sleep(0)
        seen.append((message.text, threading.current_thread().name))

    send(client, topic, "a")
    with Running(client, topic, handle):
        until(lambda: seen == [("a", "goqueue-client")])


def test_processes_work_and_one_that_dies_or_hangs_is_replaced(client, topic, tmp_path, caplog):
    names = ["one", "two", "exit", "raise", "reject", "sleep"]
    send(client, topic, *(f"{tmp_path} {what}" for what in names))

    def runs(what):
        return (tmp_path / what).read_text().split() if (tmp_path / what).exists() else []

    failed = []
    hooks = Hooks(failure=lambda message, problem: failed.append((message.text.split()[1], type(problem).__name__)))
    with Running(
        client,
        topic,
        worker_handlers.note_process,
        pool="processes",
        concurrency=2,
        time_limit=lambda message: "500ms" if "sleep" in message.text else None,
        hooks=hooks,
    ):
        until(lambda: len(runs("exit")) == len(runs("raise")) == len(runs("sleep")) == 2)
        until(lambda: len(failed) == 2)
    pids = {int(pid) for what in names for pid in runs(what)}
    assert os.getpid() not in pids
    assert len(set(runs("sleep"))) == 2
    assert sorted(failed) == [("reject", "Reject"), ("sleep", "TimeLimitExceeded")]
    assert "ended with exit code 3" in caplog.text
    assert "kaboom in a process" in caplog.text
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_the_start_of_a_process_is_not_part_of_a_handlers_time(client, topic, tmp_path):
    noted = tmp_path / "noted"
    send(client, topic, str(noted))
    limit_s = slow_handlers.IMPORT_S / 2
    with Running(client, topic, slow_handlers.note, pool="processes", concurrency=1, time_limit=limit_s):
        until(noted.exists)
        until(lambda: noted.read_text() != "")
    assert noted.read_text() == "1"


def test_a_hook_may_stop_the_run(client, topic):
    send(client, topic, "a")
    with client.queue(topic, group=topic) as queue:
        queue.run(lambda message: None, hooks=Hooks(after=lambda message: queue.stop()))
        assert queue.receive(wait=0) == []


def test_a_handler_that_no_process_can_import_is_refused_at_once(client, topic):
    queue = client.queue(topic, group=topic)
    with pytest.raises(InvalidArgument, match="define it in a module"):
        queue.run(lambda message: None, pool="processes")


def test_a_time_limit_raises_in_the_thread_and_harms_no_other_message(client, topic):
    outcomes = []

    def handle(message):
        if message.text != "slow":
            outcomes.append("quick")
            return
        try:
            while True:
                time.sleep(0.01)
        except TimeLimitExceeded:
            outcomes.append("interrupted")
            raise

    send(client, topic, "slow", "quick")
    with Running(client, topic, handle, concurrency=1, time_limit="200ms"):
        until(lambda: sorted(outcomes) == ["interrupted", "interrupted", "quick"])
        until(lambda: client.dead_letters(topic).total == 1)
    assert "longer than its limit of 0.2 s" in client.dead_letters(topic).letters[0].error


def test_a_time_limit_cancels_a_coroutine(client, topic):
    cancelled = []

    async def handle(message):
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(message.delivery_count)
            raise

    send(client, topic, "slow")
    with Running(client, topic, handle, time_limit=0.1):
        until(lambda: cancelled == [1, 2])
        until(lambda: client.dead_letters(topic).total == 1)


def test_hooks_hear_what_becomes_of_a_message_and_failures_are_logged(client, topic, caplog):
    caplog.set_level(logging.INFO)
    heard = []
    hooks = Hooks(
        before=lambda message: heard.append(("before", message.text, message.delivery_count)),
        after=lambda message: heard.append(("after", message.text)),
        retry=lambda message, problem: heard.append(("retry", message.text, str(problem))),
        failure=lambda message, problem: 1 / 0,
    )

    def handle(message):
        if message.text == "bad" and message.delivery_count == 1:
            raise ValueError("kaboom")
        if message.text == "later" and message.delivery_count == 1:
            raise Retry("not now", delay="1ms")
        if message.text == "never":
            raise Reject("no use")

    send(client, topic, "bad", "later", "never", "good")
    with Running(client, topic, handle, concurrency=1, hooks=hooks):
        until(lambda: sum(one[0] == "after" for one in heard) == 3)
        until(lambda: "the hook 'failure' failed" in caplog.text)
    assert {("retry", "bad", "kaboom"), ("retry", "later", "not now"), ("before", "bad", 2)} <= set(heard)
    assert f"the handler failed for message {topic}/0@0, attempt 1" in caplog.text
    assert 'raise ValueError("kaboom")' in caplog.text


def test_a_bad_delay_and_a_last_attempt_are_the_handlers_failures(client, topic, caplog):
    heard = []
    hooks = Hooks(
        retry=lambda message, problem: heard.append(("retry", str(problem))),
        failure=lambda message, problem: heard.append(("failure", str(problem))),
    )

    def handle(message):
        if message.delivery_count == 1:
            raise Retry("later", delay="two fortnights")
        raise RuntimeError("boom")

    def retry_delay(message, problem):
        if message.delivery_count == 2:
            raise Reject("that was the last attempt")
        return "1ms"

    send(client, topic, "one")
    with Running(client, topic, handle, hooks=hooks, retry_delay=retry_delay):
        until(lambda: len(heard) == 2)
    assert heard[0][0] == "retry"
    assert "delay='two fortnights' is not a duration" in heard[0][1]
    assert heard[1] == ("failure", "boom")
    assert "rejected by its handler" not in caplog.text
    until(lambda: [one.error for one in client.dead_letters(topic).letters] == ["that was the last attempt"])


def test_a_hook_hears_that_an_outcome_could_not_be_stored(client, topic):
    heard = []
    hooks = Hooks(
        after=lambda message: heard.append("after"), unsettled=lambda message, problem: heard.append(problem.code)
    )
    send(client, topic, "one")
    with Running(client, topic, lambda message: client.settle("ack", [message.receipt]), hooks=hooks):
        until(lambda: heard)
    assert heard == ["receipt_expired"]


def test_leases_are_extended_while_a_handler_works(client, topic):
    client.alter_policy(topic, visibility="300ms")
    counts = []

    def handle(message):
        until(lambda: time.monotonic() > started + 1.5)
        counts.append(message.delivery_count)

    send(client, topic, "slow")
    started = time.monotonic()
    with Running(client, topic, handle):
        until(lambda: counts)
    assert counts == [1]


def test_what_is_not_done_within_the_grace_time_is_given_back_and_does_not_count(client, topic):
    begun = threading.Event()
    let_go = threading.Event()

    def handle(message):
        begun.set()
        let_go.wait(60)

    send(client, topic, "long")
    with Running(client, topic, handle, grace="50ms"):
        assert begun.wait(20)
    with client.queue(topic, group=topic) as other:
        (again,) = other.receive(wait="5s")
        assert again.delivery_count == 1
        other.ack(again)
    let_go.set()


SCRIPT = """
import sys, time
from goqueue.client import sync

def handle(message):
    # In one piece: two threads print at once.
    sys.stdout.write(f"begin {message.text}\\n")
    sys.stdout.flush()
    time.sleep(float(message.text))
    print("end", message.text, flush=True)

if __name__ == "__main__":
    with sync.connect(sys.argv[1]) as client, client.queue(sys.argv[2], group=sys.argv[2]) as queue:
        queue.run(handle, concurrency=2, grace=float(sys.argv[3]), pool=sys.argv[4])
        print("stopped", flush=True)
"""


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_sigterm_finishes_what_is_in_hand_and_gives_back_the_rest(broker, client, topic, tmp_path, pool):
    (tmp_path / "script.py").write_text(SCRIPT)
    send(client, topic, "1", "500", "2000")
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", f"http://{broker.http}", topic, "4", pool],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sorted(process.stdout.readline() for _ in range(2)) == ["begin 1\n", "begin 500\n"]
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert output == "end 1\nstopped\n"
    with client.queue(topic, group=topic, auto_extend=False) as queue:
        left = queue.receive(wait="5s") + queue.receive(wait=0)
        assert sorted((one.text, one.delivery_count) for one in left) == [("2000", 1), ("500", 1)]


async def test_a_handler_may_be_stopped_from_the_asynchronous_client(broker):
    async with connect(f"http://{broker.http}") as client:
        async with client.producer() as producer:
            await producer.send_and_wait("run-stopped", "a")
        async with client.queue("run-stopped") as queue:
            await asyncio.wait_for(queue.run(lambda message: queue.stop()), 30)
            assert await queue.receive(wait=0) == []
