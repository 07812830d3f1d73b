"""Arguments through JSON: typed on both sides, refused where they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from uuid import UUID

import msgspec
import pytest

from goqueue.worker.arguments import Arguments, InvalidTaskArguments


class Size(Enum):
    SMALL = "small"


@dataclass
class Parcel:
    id: UUID
    sizes: list[Size]


class Point(msgspec.Struct):
    x: int
    y: int = 0


def round_trip(function, *args, **kwargs):
    arguments = Arguments(function, "task")
    return arguments.decode(arguments.encode(args, kwargs))


def test_rich_types_come_back_as_they_were_sent():
    def task(parcel: Parcel, when: datetime, *points: Point, raw: bytes = b"", **counts: int) -> None: ...

    parcel = Parcel(UUID(int=7), [Size.SMALL])
    when = datetime(2030, 1, 1, tzinfo=UTC)

    args, kwargs = round_trip(task, parcel, when, Point(1), Point(2, 3), raw=b"\xff", a=1)

    assert args == (parcel, when, Point(1), Point(2, 3))
    assert kwargs == {"raw": b"\xff", "a": 1}


def test_arguments_without_annotations_are_plain_json():
    assert round_trip(lambda one, two: None, [1, None], two={"a": 1.5}) == (([1, None], {"a": 1.5}), {})


def test_pydantic_models_are_checked_by_pydantic():
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):
        id: int
        at: datetime

    def task(order, others=()): ...

    task.__annotations__ = {"order": Order, "others": list[Order]}
    order = Order(id=1, at=datetime(2030, 1, 1, tzinfo=UTC))

    assert round_trip(task, order, others=[order]) == ((order, [order]), {})
    with pytest.raises(InvalidTaskArguments, match="argument 'order' of task 'task'"):
        round_trip(task, {"id": "seven"})


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("three",), {}, "argument 'count' of task 'task': Expected `int`, got `str`"),
        ((), {}, "missing a required argument: 'count'"),
        ((1,), {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ((object(),), {}, "a value of type object cannot be written as JSON"),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_sent(args, kwargs, message):
    def task(count: int) -> None: ...

    with pytest.raises(InvalidTaskArguments, match=message):
        round_trip(task, *args, **kwargs)


@pytest.mark.parametrize("value", [b"not json", b"[]", b'{"args": 1}', b'{"args": ["x"]}', b"\xff"])
def test_a_message_that_is_not_a_call_of_the_task_is_refused(value):
    def task(count: int) -> None: ...

    with pytest.raises(InvalidTaskArguments):
        Arguments(task, "task").decode(value)
