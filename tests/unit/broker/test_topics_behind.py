"""Changes of topics through a node that has not heard of what others changed: it is not believed before it has."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.stack import Stack

from goqueue.broker.topics import NewTopic
from goqueue.errors import InvalidPartitions, TopicExists, TopicNotFound
from goqueue.metadata.image import Image


class Behind:
    """The metadata as a node sees it that lags: the image of some time ago, until it catches up."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        self._old: Image | None = metadata.image.copy()

    @property
    def image(self) -> Image:
        return self._old or self._metadata.image

    async def catch_up(self) -> None:
        self._old = None

    async def commit(self, *arguments: Any) -> int:
        # A store refuses by what it has, and its image has caught up then.
        self._old = None
        return int(await self._metadata.commit(*arguments))


def fall_behind(stack: Stack) -> None:
    stack.topics._metadata = Behind(stack.topics._metadata)  # type: ignore[assignment]


def hear(stack: Stack) -> Any:
    return stack.topics._metadata._metadata  # type: ignore[attr-defined]


async def through_another(stack: Stack, do: Any) -> None:
    """A change that the node under test has not heard of."""
    lagging = stack.topics._metadata
    stack.topics._metadata = hear(stack)
    await do()
    stack.topics._metadata = lagging


async def test_a_topic_that_another_node_made_is_altered_and_deleted() -> None:
    stack = Stack()
    await stack.topic("before", 1)
    for change in ("alter", "grow", "delete"):
        name = f"new-{change}"
        fall_behind(stack)
        await through_another(stack, lambda name=name: stack.topics.create(NewTopic(name, 1)))
        with pytest.raises(TopicNotFound):
            stack.topics.get(name)
        if change == "alter":
            assert (await stack.topics.alter_config(name, {"retention.ms": "7000"})).config["retention.ms"] == "7000"
        elif change == "grow":
            assert (await stack.topics.add_partitions(name, 2)).partition_count == 2
        else:
            await stack.topics.delete(name)
        stack.topics._metadata = hear(stack)
    assert stack.topics.find("new-delete") is None


async def test_a_name_that_another_node_has_freed_is_taken() -> None:
    stack = Stack()
    await stack.topic("t", 1)
    fall_behind(stack)
    await through_another(stack, lambda: stack.topics.delete("t"))
    made = await stack.topics.create(NewTopic("t", 2))
    assert made.partition_count == 2


async def test_a_topic_that_another_node_made_anew_is_deleted() -> None:
    stack = Stack()
    await stack.topic("t", 1)
    fall_behind(stack)

    async def anew() -> None:
        await stack.topics.delete("t")
        await stack.topics.create(NewTopic("t", 2))

    await through_another(stack, anew)
    assert (await stack.topics.delete("t")).partition_count == 2
    assert stack.topics.find("t") is None


async def test_what_is_refused_by_what_is_there_stays_refused() -> None:
    stack = Stack()
    await stack.topic("t", 2)
    with pytest.raises(TopicExists):
        await stack.topics.create(NewTopic("t", 1))
    with pytest.raises(TopicNotFound):
        await stack.topics.delete("none")
    with pytest.raises(InvalidPartitions):
        await stack.topics.add_partitions("t", 1)
