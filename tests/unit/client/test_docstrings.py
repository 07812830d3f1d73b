"""Every call of the client and of the worker shows how it is called."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

from goqueue import client, worker
from goqueue.client import sync
from goqueue.client.admin import delayed
from goqueue.client.producing.transaction import Transaction
from goqueue.worker.task import Sender, Task

_CLASSES = [
    client.Client,
    client.Producer,
    client.Consumer,
    client.QueueConsumer,
    Transaction,
    delayed.DelayedMessages,
    delayed.Schedules,
    sync.Client,
    sync.Producer,
    sync.Consumer,
    sync.QueueConsumer,
    sync.Transaction,
    worker.Worker,
    Task,
    Sender,
]
# Called by other parts of the client, which are in other files.
_OURS = {
    "Producer": {"check_open", "drain", "queue_prepared", "send_prepared"},
    "Consumer": {"check_manual", "committed_elsewhere", "handed_out", "membership", "start"},
    "QueueConsumer": {"start"},
    "Transaction": {"check_open"},
    "Worker": {"publish"},
    "Sender": {"record_headers", "sent"},
}


def calls():
    for kind in _CLASSES:
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and name not in _OURS.get(kind.__name__, ()):
                yield pytest.param(name, member, id=f"{kind.__module__}.{kind.__name__}.{name}")
    yield pytest.param("connect", client.connect, id="goqueue.client.connect")
    yield pytest.param("connect", sync.connect, id="goqueue.client.sync.connect")
    yield pytest.param("current", worker.current, id="goqueue.worker.current")


def names_called(paragraph: str) -> set[str]:
    """What a piece of a docstring calls or decorates with, if it is Python."""
    try:
        tree = ast.parse("async def example():\n" + textwrap.indent(textwrap.dedent(paragraph), "    "))
    except SyntaxError:
        return set()
    found = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in found}


@pytest.mark.parametrize(("name", "call"), list(calls()))
def test_a_call_has_an_example(name, call):
    text = inspect.getdoc(call) or ""
    # Also a call within a sentence: `client.redrive("orders").wait()`.
    pieces = text.split("\n\n") + text.split("`")[1::2]
    assert any(name in names_called(piece) for piece in pieces), f"no example of {name}(...) in: {text}"
