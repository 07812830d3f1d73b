"""A queue as a source, without Spark and without a broker: options, offsets, and who is acknowledged when."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.queue.keeper import Keeper
from goqueue.pipeline.queue.leases import NEVER_GIVEN, Lease, QueueOffset, runs
from goqueue.pipeline.queue.options import is_queue, parse_queue_options
from goqueue.pipeline.queue.stream_reader import QueueStreamReader

GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:9092", "mode": "queue", "subscribe": "jobs", "groupId": "workers"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"groupId": ""}, "groupId: is missing"),
        ({"subscribe": "a,b"}, "subscribe: a queue is one topic"),
        ({"startingOffsets": "earliest"}, "startingoffsets: is not known"),
        ({"maxOffsetsPerTrigger": "20000"}, "is more than 10000"),
        ({"visibility": "1s"}, "visibility: '1s' is not between 5s and 12h"),
        ({"columns": "key,colour"}, "columns: there is no column 'colour'"),
    ],
)
def test_options_that_make_no_sense_for_a_queue_are_refused(change: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        parse_queue_options({**GIVEN, **change})


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadOption, match="'que' is not one of stream, queue"):
        is_queue({"mode": "que"})


def test_an_offset_comes_back_from_the_checkpoint_as_it_was() -> None:
    offset = QueueOffset(7, (Lease(0, 17, "r1", 2), Lease(1, 3, "r2")))

    assert QueueOffset.decode(offset.encode()) == offset


def test_leases_that_lie_far_apart_are_read_apart() -> None:
    leases = [Lease(0, 900, "d"), Lease(0, 1, "a"), Lease(0, 5, "b"), Lease(1, 6, "c")]

    assert [[one.receipt for one in run] for run in runs(leases, 100)] == [["a", "b"], ["d"], ["c"]]


class FakeBroker:
    """Gives what it is told to give, and remembers what it is asked."""

    def __init__(self, *batches: list[Lease]) -> None:
        self.batches, self.acked, self.extended = list(batches), [], []  # type: ignore[var-annotated]
        # Receipts that are not valid any more, and those of a topic that is gone.
        self.ended: set[str] = set()
        self.unknown: set[str] = set()

    def receive(self, _count: int, _visibility_ms: int) -> list[Lease]:
        return self.batches.pop(0) if self.batches else []

    def ack(self, receipts: list[str]) -> dict[str, int]:
        refused = {one: 410 for one in receipts if one in self.ended}
        refused |= {one: NEVER_GIVEN for one in receipts if one in self.unknown}
        self.acked += [one for one in receipts if one not in refused]
        return refused

    def extend(self, receipts: list[str], _visibility_ms: int) -> int:
        self.extended += receipts
        return 0


def reader(broker: FakeBroker) -> QueueStreamReader:
    made = QueueStreamReader(parse_queue_options(GIVEN))
    made._broker = broker  # type: ignore[assignment]
    return made


def test_messages_are_acknowledged_once_when_the_next_batch_begins() -> None:
    broker = FakeBroker([Lease(0, 0, "a")], [Lease(0, 1, "b")])
    made = reader(broker)
    first = made.latestOffset(made.initialOffset(), None)  # type: ignore[arg-type]
    assert broker.acked == []

    second = made.latestOffset(first, None)  # type: ignore[arg-type]
    made.commit(first)

    assert broker.acked == ["a"]
    assert QueueOffset.decode(second) == QueueOffset(2, (Lease(0, 1, "b"),))
    made.stop = lambda: None  # type: ignore[method-assign]


@pytest.mark.parametrize("count", [1, 2])
def test_a_message_that_was_done_and_is_delivered_again_is_acknowledged_and_not_read(count: int) -> None:
    """A leader that crashes may forget the lease: then the next one delivers the message for the first time again."""
    broker = FakeBroker([Lease(0, 0, "later", count), Lease(0, 1, "b")])
    broker.ended = {"earlier"}
    made = reader(broker)
    done: Any = QueueOffset(4, (Lease(0, 0, "earlier"),)).encode()

    found = QueueOffset.decode(made.latestOffset(done, None))  # type: ignore[arg-type]

    assert broker.acked == ["later"]
    assert found == QueueOffset(5, (Lease(0, 1, "b"),))


def test_messages_whose_lease_had_ended_are_not_read_again_whenever_they_come_back() -> None:
    broker = FakeBroker([Lease(0, 1, "b")], [Lease(0, 2, "c"), Lease(0, 0, "again", 2)])
    broker.ended = {"a"}
    made = reader(broker)
    done: Any = QueueOffset(4, (Lease(0, 0, "a"),)).encode()

    second: Any = made.latestOffset(done, None)  # type: ignore[arg-type]
    third = QueueOffset.decode(made.latestOffset(second, None))  # type: ignore[arg-type]

    assert third == QueueOffset(6, (Lease(0, 2, "c"),))
    assert broker.acked == ["b", "again"]


@pytest.mark.parametrize("count", [1, 2])
def test_the_messages_of_a_topic_that_was_made_anew_are_read_although_others_had_their_places(count: int) -> None:
    """Also one that somebody else was given before, and did not finish."""
    broker = FakeBroker([Lease(0, 0, "new", count), Lease(0, 1, "newer")])
    broker.ended, broker.unknown = {"old"}, set()
    made = reader(broker)
    done: Any = QueueOffset(1, (Lease(0, 0, "old"),)).encode()

    made.commit(done)
    broker.unknown = {"old"}
    found = QueueOffset.decode(made.latestOffset(done, None))  # type: ignore[arg-type]

    assert found == QueueOffset(2, (Lease(0, 0, "new", count), Lease(0, 1, "newer")))
    assert broker.acked == []


def test_leases_of_the_batch_at_hand_are_renewed_and_those_before_it_are_not() -> None:
    broker = FakeBroker()
    keeper = Keeper(broker, 60_000)
    keeper.keep([Lease(0, 0, "a")])
    keeper.renew()
    keeper.keep([])
    keeper.renew()
    keeper.close()

    assert broker.extended == ["a"]
