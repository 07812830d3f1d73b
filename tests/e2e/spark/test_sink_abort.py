"""A write that fails leaves nothing behind that would hold readers back, whatever its other tasks are doing just then.

Without Spark: the sink's classes are called as Spark calls them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.kafka_truth import truth

from goqueue.pipeline.errors import RowRefused
from goqueue.pipeline.sink.sink_options import SinkOptions, parse_sink_options
from goqueue.pipeline.sink.writers import BatchWriter


def rows(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string())})


def options_of(broker: BrokerProcess, topic: str, **more: str) -> SinkOptions:
    return parse_sink_options({"kafka.bootstrap.servers": broker.kafka, "topic": topic, **more})


def written(broker: BrokerProcess, topic: str, count: int) -> list[bytes | None]:
    """What a committed reader sees; a commit is seen once its markers are written, a moment later."""
    deadline = time.monotonic() + 10
    while len(found := [row[4] for row in truth(broker.kafka, topic)]) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def write(options: SinkOptions, *values: str) -> None:
    writer = BatchWriter(options)
    writer.commit([writer.write(iter([rows(*values)]))])


class SlowTask(threading.Thread):
    """A task that has sent a row, and waits before it goes on."""

    def __init__(self, writer: BatchWriter) -> None:
        super().__init__(daemon=True)
        self._writer = writer
        self._has_sent, self._goes_on = threading.Event(), threading.Event()
        self.start()
        assert self._has_sent.wait(30)

    def run(self) -> None:
        # What it wrote was dropped: it may be refused.
        try:
            self._writer.write(self._rows())
        except Exception as refused:  # noqa: BLE001 - of whatever type, it is told to nobody
            self.refused = refused

    def _rows(self) -> Iterator[pa.RecordBatch]:
        yield rows("staged")
        # Sent are batches that are full, or the last ones.
        self._has_sent.set()
        self._goes_on.wait(30)
        yield rows("staged later")

    def end(self) -> None:
        self._goes_on.set()
        self.join(30)
        assert not self.is_alive()


@pytest.mark.parametrize("more", [{}, {"writer": "nightly"}], ids=["without a name", "named"])
def test_a_task_that_is_not_done_when_another_fails_holds_no_reader_back(
    broker: BrokerProcess, topic: Callable[..., str], more: dict[str, str]
) -> None:
    name = topic()
    options = options_of(broker, name, **more)
    failing = BatchWriter(options)
    slow = SlowTask(failing)

    failing.abort([None, None])
    if more:
        slow.end()
    write(options, "good")

    assert written(broker, name, 1) == [b"good"]
    if not more:
        # A task that goes on after the write was given up stages nothing either.
        slow.end()
        assert failing.write(iter([rows("too late")])).participant is None
        write(options, "second")
        assert written(broker, name, 2) == [b"good", b"second"]


def test_a_task_whose_row_is_refused_drops_what_it_has_sent_before(
    broker: BrokerProcess, topic: Callable[..., str]
) -> None:
    name = topic(1, **{"max.message.bytes": "2000"})
    options = options_of(broker, name)
    with pytest.raises(RowRefused, match="larger than"):
        BatchWriter(options).write(iter([rows("fits"), rows("x" * 5000)]))

    write(options, "good")

    assert written(broker, name, 1) == [b"good"]


@pytest.mark.slow
def test_an_abort_that_reaches_no_broker_does_not_hide_what_the_write_failed_with() -> None:
    options = parse_sink_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})

    BatchWriter(options).abort([])
    named = parse_sink_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "writer": "spark-q", "epoch": "0"}
    )
    BatchWriter(named).abort([])
