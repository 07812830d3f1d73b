"""How rows flow: what Spark would refuse is refused by validation, and sinks share a read where they can."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from goqueue.pipeline.declared.checks.streams import QueryPlan, plan_queries
from goqueue.pipeline.declared.form.problems import PipelineInvalid
from goqueue.pipeline.declared.form.sql import aggregated_by
from goqueue.pipeline.declared.load import load_text, load_values

SOURCES = {"a": {"topic": "a"}, "b": {"topic": "b"}, "t": {"table": "t"}}
LATE_A = {"watermark": {"name": "late_a", "from": "a", "time": "timestamp", "delay": "10m"}}
RENAMED_B = {"select": {"name": "named_b", "from": "b", "columns": {"key": "key", "at": "timestamp"}}}
LATE_B = {"watermark": {"name": "late_b", "from": "named_b", "time": "at", "delay": "10m"}}
JOIN = {"from": "late_a", "with": "late_b", "on": ["key"], "time": ["timestamp", "at"], "within": "1h"}
COUNT = {"sql": {"name": "counts", "query": "SELECT key, count(*) AS n FROM a GROUP BY key"}}
BATCH = {"foreach_batch": {"name": "each", "from": "a", "function": "json:dumps"}}
TOPIC = {"topic": {"topic": "out", "key": "key"}}
WINDOW = {"window": {"name": "w", "time": "timestamp", "size": "5m", "aggregate": {"n": "count(1)"}}}


PAGE = Path(__file__).parents[4] / "docs" / "howto" / "pipeline-streams.md"


def test_every_pipeline_of_the_page_is_valid() -> None:
    found = re.findall(r"```yaml\n(.*?)```|<<'YAML'\n(.*?)YAML\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)

    assert [load_text(plain or inside).name for plain, inside in found] == [
        "towns",
        "paid_orders",
        "visits_per_town",
        "top_three",
    ]


def load(*steps: dict[str, Any], sinks: Any = (TOPIC,), **head: Any) -> Any:
    return load_values({"name": "p", "sources": SOURCES, "steps": list(steps), "sinks": list(sinks), **head})


def joined(**changes: Any) -> dict[str, Any]:
    return {"join": {name: value for name, value in {**JOIN, **changes}.items() if value is not None}}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_two_streams_with_watermarks_and_a_bound_are_joined(how: str) -> None:
    load(LATE_A, RENAMED_B, LATE_B, joined(how=how))


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((LATE_A, RENAMED_B, LATE_B, joined(within=None, time=None)), "'late_b' is a stream too: without a bound"),
        ((LATE_A, RENAMED_B, LATE_B, joined(within=None)), "'late_b' is a stream too: without a bound"),
        ((RENAMED_B, LATE_B, joined(**{"from": "a"})), "'a' has no watermark: its rows would be kept for ever"),
        ((LATE_A, RENAMED_B, joined(**{"with": "named_b"})), "'named_b' has no watermark"),
        ((LATE_A, RENAMED_B, LATE_B, joined(time=["key", "at"])), "'late_a' has its watermark on 'timestamp'"),
        ((LATE_A, joined(**{"with": "t"})), "is for two streams, and one side is a table"),
        ((LATE_A, {"join": {"with": "t", "on": ["key"], "how": "full"}}), "full: the rows of a table never end"),
        ((LATE_A, {"join": {"from": "t", "with": "late_a", "on": ["key"]}}), "'late_a' is a stream, and the other"),
        ((LATE_A, RENAMED_B, LATE_B, joined(), {**WINDOW}), "reads the result of a join"),
        ((WINDOW,), "w.* is missing: how late may rows come"),
        ((BATCH, {"deduplicate": {"keys": ["key"], "time": "timestamp", "watermark": "1h"}}), "behind a foreach_batch"),
        ((BATCH, {"expect": {"rules": {"one": "offset > 1"}}}), "behind a foreach_batch"),
        ((BATCH, {"parse": {"schema": "id BIGINT"}}), "behind a foreach_batch step, where rows that do not fit cannot"),
        (({"watermark": {"from": "t", "time": "x", "delay": "1m"}},), "a table has no late rows"),
        ((COUNT,), "step counts changes its result with every batch"),
        (({"foreach_batch": {"from": "a", "function": "no_such_module:f"}},), "no Python module 'no_such_module'"),
    ],
)
def test_what_spark_would_refuse_is_refused(steps: Any, told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        load(*steps, dead_letters="bad")


def query(text: str) -> dict[str, Any]:
    return {"sql": {"name": "q", "query": f"SELECT 1 AS key {text}"}}


NEAR = "late_b.at BETWEEN late_a.timestamp AND late_a.timestamp + INTERVAL 1 HOUR"


# What `validate` says of joins in SQL, and what of them the tests with Spark try there.
REFUSED = [
    ("FROM a LEFT JOIN b ON a.key = b.key", "LEFT join of two streams, a and b, without a watermark"),
    ("FROM a LEFT SEMI JOIN b ON a.key = b.key", "SEMI join of two streams, a and b, without a watermark"),
    ("FROM late_a FULL JOIN late_b USING (key)", "late_a and late_b, with no bound of time"),
    (
        "FROM late_a RIGHT JOIN late_b ON late_a.key = late_b.key",
        "RIGHT join of two streams.* with no bound of time",
    ),
    ("FROM t LEFT JOIN a ON a.key = t.key", "the rows of the table t never end"),
    ("FROM a RIGHT JOIN t USING (key)", "RIGHT join: the rows of the table t never end"),
    ("FROM a FULL OUTER JOIN t USING (key)", "FULL join: the rows of the table t never end"),
    ("FROM (SELECT * FROM t) s LEFT JOIN (SELECT * FROM a) r USING (key)", "the table t never end"),
    ("FROM t LEFT ANTI JOIN a USING (key)", "ANTI join: the rows of the table t never end"),
    ("FROM a WHERE key NOT IN (SELECT key FROM b)", "a and b are streams: that nothing will match is never sure"),
    ("FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.key = a.key)", "is never sure"),
    ("FROM t WHERE key IN (SELECT key FROM a)", "SEMI join: the rows of the table t never end"),
    ("FROM (SELECT DISTINCT key FROM a)", "step q changes its result with every batch"),
    ("FROM a ORDER BY x", "ORDER BY: the rows of the stream 'a' never have all come"),
    ("FROM a SORT BY x", "SORT BY: the rows of the stream 'a'"),
    ("FROM a CLUSTER BY x", "CLUSTER BY: the rows of the stream 'a'"),
    ("FROM (SELECT * FROM a ORDER BY x)", "ORDER BY: the rows of the stream 'a'"),
    (", row_number() OVER (PARTITION BY key ORDER BY x) AS n FROM a", "ROW_NUMBER.. OVER: the rows of the stream"),
    ("FROM a UNION SELECT 2 FROM b", "step q changes its result with every batch"),
]
TAKEN = [
    f"FROM late_a LEFT JOIN late_b ON late_a.key = late_b.key AND {NEAR}",
    f"FROM late_a FULL JOIN late_b ON late_a.key = late_b.key AND {NEAR}",
    "FROM late_a LEFT JOIN late_b ON late_a.timestamp = late_b.at",
    "FROM a JOIN b USING (key)",
    "FROM a LEFT JOIN t USING (key)",
    "FROM t RIGHT JOIN a USING (key)",
    "FROM a WHERE key NOT IN (SELECT key FROM t)",
    "FROM a UNION ALL SELECT 2 FROM b",
    "FROM a WHERE key IN (1, 2)",
    "FROM a DISTRIBUTE BY key",
    "FROM a JOIN (SELECT key FROM t ORDER BY key) s USING (key)",
    "FROM late_a GROUP BY window(timestamp, '5 minutes'), key",
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_sql_that_spark_would_refuse_of_streams_is_refused(text: str, told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        load(LATE_A, RENAMED_B, LATE_B, query(text))


@pytest.mark.parametrize("text", TAKEN)
def test_joins_in_sql_that_spark_takes_are_taken(text: str) -> None:
    load(LATE_A, RENAMED_B, LATE_B, query(text))


def test_a_result_that_is_written_as_a_whole_may_be_sorted() -> None:
    sorted_counts = {"sql": {"query": "SELECT key, count(*) AS n FROM a GROUP BY key ORDER BY n"}}
    load(sorted_counts, sinks=[{"topic": {"topic": "out", "key": "key", "mode": "complete"}}])

    with pytest.raises(PipelineInvalid, match="ORDER BY"):
        load(sorted_counts, sinks=[{"topic": {"topic": "out", "key": "key", "mode": "update"}}])
    load(BATCH, {"sql": {"query": "SELECT key FROM each ORDER BY key"}})


def test_behind_a_function_over_batches_sql_joins_as_it_likes() -> None:
    load(BATCH, query("FROM t LEFT JOIN each USING (key)"))


def test_two_streams_that_sql_joins_are_not_cut_into_batches_before_it() -> None:
    itself = query("FROM a p JOIN a q USING (key)")
    delta = [{"delta": {"name": name, "path": f"/tmp/{name}", "from": "q"}} for name in ("one", "two")]

    assert plan_queries(load(itself, sinks=delta, shared_reads=True)) == [QueryPlan("shared_q", ("one", "two"), "q")]
    with pytest.raises(PipelineInvalid, match="joins two streams in mode append only"):
        load(query("FROM a p JOIN b q USING (key)"), sinks=[{"topic": {**TOPIC["topic"], "mode": "update"}}])


@pytest.mark.parametrize(
    ("steps", "sink", "told"),
    [
        ((COUNT,), {"mode": "update", "key": None}, "mode update needs the key of a row of the result"),
        ((), {"mode": "complete", "from": "a"}, "mode complete needs a step that adds rows up"),
        ((LATE_A, RENAMED_B, LATE_B, joined()), {"mode": "update"}, "joins two streams in mode append only"),
        (
            (
                {"deduplicate": {"name": "one", "from": "a", "keys": ["key"], "time": "timestamp", "watermark": "1h"}},
                {"window": {**WINDOW["window"], "from": "one"}},
            ),
            {"mode": "update"},
            "takes one step that remembers rows, not one and w",
        ),
        ((BATCH,), {"mode": "update"}, "cannot lie behind a foreach_batch step"),
        ((), {"from": "a", "key": None, "delete_when": "offset > 1"}, "a tombstone needs the key"),
        ((), {"from": "a", "delete_when": "offset >"}, "not SQL"),
    ],
)
def test_output_modes_that_spark_would_refuse_are_refused(steps: Any, sink: dict[str, Any], told: str) -> None:
    words = {name: value for name, value in {**TOPIC["topic"], **sink}.items() if value is not None}
    with pytest.raises(PipelineInvalid, match=told):
        load(*steps, sinks=[{"topic": words}])


def test_a_window_may_use_the_watermark_of_a_step_before_it() -> None:
    pipeline = load(LATE_A, {"window": {**WINDOW["window"], "from": "late_a"}})

    assert plan_queries(pipeline) == [QueryPlan("topic", ("topic",))]


def test_a_count_over_a_table_within_a_query_over_a_stream_is_no_result_that_changes() -> None:
    assert aggregated_by("SELECT * FROM a WHERE offset > (SELECT max(x) FROM t)") == ("t",)
    assert aggregated_by("WITH c AS (SELECT key FROM a) SELECT count(*) FROM c") == ("a",)
    load({"sql": {"query": "SELECT * FROM a WHERE offset > (SELECT max(offset) FROM t)"}})


FILTERED = {"filter": {"name": "some", "from": "a", "where": "offset > 1"}}
FEWER = {"filter": {"name": "few", "from": "some", "where": "offset > 2"}}


def sinks(**reads: str) -> list[dict[str, Any]]:
    return [{"delta": {"name": name, "path": f"/x/{name}", "from": read}} for name, read in reads.items()]


def test_without_shared_reads_every_sink_reads_for_itself() -> None:
    pipeline = load(FILTERED, sinks=sinks(x="a", y="some"))

    assert plan_queries(pipeline) == [QueryPlan("x", ("x",)), QueryPlan("y", ("y",))]


def test_sinks_share_the_last_step_that_all_of_their_rows_come_through() -> None:
    wide = load(FILTERED, FEWER, sinks=sinks(x="a", y="some", z="few"), shared_reads=True)
    narrow = load(FILTERED, FEWER, sinks=sinks(x="some", y="few", z="few"), shared_reads=True)

    assert plan_queries(wide) == [QueryPlan("shared_a", ("x", "y", "z"), "a")]
    assert plan_queries(narrow) == [QueryPlan("shared_some", ("x", "y", "z"), "some")]


def test_sinks_of_other_streams_and_behind_state_of_their_own_read_for_themselves() -> None:
    window = {"window": {**WINDOW["window"], "from": "some", "watermark": "1m"}}
    pipeline = load(FILTERED, window, sinks=sinks(x="a", y="some", z="w", v="b"), shared_reads=True)

    assert plan_queries(pipeline) == [
        QueryPlan("shared_a", ("x", "y"), "a"),
        QueryPlan("z", ("z",)),
        QueryPlan("v", ("v",)),
    ]


def test_files_and_results_that_change_read_for_themselves() -> None:
    update = {"topic": {**TOPIC["topic"], "from": "counts", "mode": "update"}}
    files = {"parquet": {"path": "/x/files", "from": "a"}}
    pipeline = load(COUNT, sinks=[*sinks(x="a", y="a"), update, files], shared_reads=True)

    assert plan_queries(pipeline) == [
        QueryPlan("shared_a", ("x", "y"), "a"),
        QueryPlan("topic", ("topic",), "counts"),
        QueryPlan("parquet", ("parquet",)),
    ]


def test_a_function_over_batches_lies_behind_what_sinks_share() -> None:
    alone = load(FILTERED, {"foreach_batch": {**BATCH["foreach_batch"], "from": "some"}}, sinks=sinks(x="each"))
    shared = load(BATCH, sinks=sinks(x="each", y="a"), shared_reads=True)

    assert plan_queries(alone) == [QueryPlan("x", ("x",), "some")]
    assert plan_queries(shared) == [QueryPlan("shared_a", ("x", "y"), "a")]


OWN = {"name": "own", "path": "s3a://lake/own", "from": "a", "writer": "spark"}
JARS = {"spark.jars": "/jars/delta.jar,/jars/hadoop-aws.jar"}


def test_a_table_that_spark_itself_writes_reads_for_itself_and_takes_what_spark_opens() -> None:
    pipeline = load(sinks=[{"delta": OWN}, *sinks(x="a", y="a")], shared_reads=True, settings=JARS)

    assert plan_queries(pipeline) == [QueryPlan("own", ("own",)), QueryPlan("shared_a", ("x", "y"), "a")]
    load(sinks=[{"iceberg": {"table": "lake.db.rows", "writer": "spark", "partition_by": ["day"], "from": "a"}}])


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"delta": OWN}, "own cannot be used here: s3a:// is not supported"),
        ({"delta": {**OWN, "path": "/x", "mode": "upsert", "keys": ["k"], "sequence": "s"}}, "mode upsert is not one"),
        ({"delta": {**OWN, "path": "/x", "from": "each"}}, "behind a foreach_batch step would be written twice"),
        ({"iceberg": {"table": "l.d.r", "writer": "spark", "catalog": {"type": "sql"}}}, "catalog from the session"),
        ({"iceberg": {"table": "l.d.r", "writer": "spark", "add_columns": True}}, "adds none to an Iceberg table"),
        ({"iceberg": {"table": "l.d.r", "writer": "spark", "partition_by": ["day(at)"]}}, "by plain columns only"),
    ],
)
def test_what_sparks_own_writers_do_not_do_is_refused(sink: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        load(BATCH, sinks=[sink])
