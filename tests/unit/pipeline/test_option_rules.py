"""Options that Spark's Kafka connector takes or refuses are taken or refused here, with the reason."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from pyspark.sql.types import StructType

from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.sink.sink_options import check_columns, parse_sink_options
from goqueue.pipeline.source.batch_reader import BatchReader
from goqueue.pipeline.source.catalogue import subscribed
from goqueue.pipeline.source.option_rules import check_order
from goqueue.pipeline.source.options import SourceOptions, parse_source_options
from goqueue.pipeline.source.stream_reader import StreamReader
from goqueue.records import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
PLACE = TopicPartition("t", 0)


def source(**options: str) -> SourceOptions:
    return parse_source_options(
        {**SERVERS, "subscribe": "t", **{key.replace("__", "."): options[key] for key in options}}
    )


class Topics:
    """A broker with these topics, of one partition each."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def partitions(self) -> dict[str, list[int]]:
        return {name: [0] for name in self.names}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("orders", ["new-orders", "orders", "orders.dlq"]), ("^orders$", ["orders"]), ("dlq$", ["orders.dlq"]), ("x", [])],
)
def test_a_pattern_finds_a_part_of_the_name(pattern: str, found: list[str]) -> None:
    options = parse_source_options({**SERVERS, "subscribePattern": pattern})

    places = subscribed(options, Topics("orders", "orders.dlq", "new-orders", "__orders"))  # type: ignore[arg-type]

    assert [place.topic for place in places] == found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffsets": "latest"}, "cannot start at latest"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "cannot start at latest"),
        ({"startingTimestamp": "20", "endingTimestamp": "10"}, "20 is after endingTimestamp 10"),
        ({"kafka__auto__offset__reset": "earliest"}, "said by startingOffsets"),
        ({"kafka__enable__auto__commit": "true"}, "Spark keeps the offsets"),
        ({"kafka__value__deserializer": "x"}, "values are bytes"),
        ({"fetchOffset__numRetries": "often"}, "fetchOffset.numRetries: 'often' is not an integer"),
        ({"kafkaConsumer__pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs: '0' is not an integer above"),
    ],
)
def test_a_batch_read_refuses_what_would_read_nothing_or_do_nothing(options: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        BatchReader(source(**options), ["value"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endingOffsets": '{"t": {"0": 5}}'}, "a stream has no end"),
        ({"endingTimestamp": "5"}, "a stream has no end"),
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}, "10 is more than maxOffsetsPerTrigger 5"),
    ],
)
def test_a_stream_refuses_an_end_and_limits_that_exclude_each_other(options: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        StreamReader(source(**options), ["value"])


def test_a_start_after_its_end_is_refused_and_an_end_that_retention_passed_is_not() -> None:
    given = source(startingOffsets='{"t": {"0": 7}}', endingOffsets='{"t": {"0": 5}}')
    with pytest.raises(BadOption, match="t-0 would be read from 7 to 5"):
        check_order(given, {PLACE: 7}, {PLACE: 5})

    check_order(source(endingOffsets='{"t": {"0": 5}}'), {PLACE: 7}, {PLACE: 5})


def test_options_of_the_connector_without_effect_here_are_taken() -> None:
    taken = source(fetchOffset__numRetries="5", fetchOffset__retryIntervalMs="50", kafkaConsumer__pollTimeoutMs="700")

    assert taken.poll_timeout_ms == 700
    assert parse_sink_options({**SERVERS, "topic": "t", "includeHeaders": "true"}).topic == "t"


def schema(*names: str) -> StructType:
    found = StructType()
    for name in names:
        found = found.add(name, {"offset": "long", "timestampType": "integer"}.get(name, "string"))
    return found


def test_a_table_that_was_read_can_be_written_and_an_unknown_column_is_refused() -> None:
    options = parse_sink_options({**SERVERS, "topic": "t"})

    check_columns(options, schema("key", "value", "topic", "offset", "timestampType"))
    with pytest.raises(BadOption, match="no column 'prioritee', which would be lost: drop it"):
        check_columns(options, schema("value", "prioritee"))
