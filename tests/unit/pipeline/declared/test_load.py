"""A pipeline file: what it may say, and how every mistake in it is told at once."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from goqueue.pipeline.declared.form.problems import PipelineInvalid
from goqueue.pipeline.declared.load import load_file, load_text, load_values
from goqueue.pipeline.examples import EXAMPLES, example_text

GOOD = """
name: orders
dead_letters: orders.bad
sources:
  orders: {topic: orders}
  towns: {files: ./towns.json, format: json, schema: "customer STRING, town STRING"}
steps:
  - parse: {name: parsed, from: orders, schema: "id BIGINT, customer STRING"}
  - join: {with: towns, on: [customer]}
  - sql: {name: few, query: "SELECT p.id FROM parsed p"}
sinks:
  - topic: {topic: orders.few, key: id}
"""


def problems(text: str, **options: Any) -> list[str]:
    with pytest.raises(PipelineInvalid) as caught:
        load_text(dedent(text), **options)
    return caught.value.problems


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_steps_and_sinks_read_the_one_before_unless_they_say_otherwise() -> None:
    pipeline = load_text(GOOD)

    assert pipeline.steps["join_2"].reads() == ["parsed", "towns"]
    assert pipeline.sinks["topic"].reads() == ["few"]


def test_on_is_a_word_and_not_a_boolean() -> None:
    assert load_text(GOOD).steps["join_2"].on == ["customer"]  # type: ignore[attr-defined]


def test_python_values_make_the_same_pipeline_as_the_file() -> None:
    values = {
        "name": "copy",
        "sources": {"events": {"topic": "events"}},
        "sinks": [{"topic": {"topic": "events.copy"}}],
    }

    assert load_values(values).sinks["topic"].reads() == ["events"]


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = """\
        name: orders
        trigger: 5 apples
        sources:
          orders: {topic: orders, colour: red}
        steps:
          - filtr: {where: "a > 1"}
          - filter: {from: orders, where: "a >"}
          - sql: {query: "SELECT * FROM nowhere"}
          - deduplicate: {keys: [a]}
        sinks:
          - topic: {topic: "a/b"}
    """

    found = problems(text)

    assert [line.split(",")[0] for line in found] == [f"line {number}" for number in (2, 4, 6, 7, 8, 9, 11)]
    assert "did you mean" in found[1] or "there are" in found[1]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("dead_letters: orders.bad\n", "", "rows that cannot be parsed or are quarantined must go somewhere"),
        ("{topic: orders}", "{topic: orders, files: x}", "say either topic, table or files"),
        (', schema: "customer STRING, town STRING"', "", "json files need a schema"),
        (
            "with: towns",
            "with: orders",
            "'orders' is a stream too: without a bound, every row is kept",
        ),
        ("FROM parsed p", "FROM parsd p", "reads 'parsd'"),
        ("name: few,", "name: parsed,", "there is a step 'parsed' already"),
        ("SELECT p.id", "DROP TABLE x; SELECT p.id", "not SQL"),
        ('"id BIGINT, customer STRING"', '"id, customer"', "not SQL"),
        ('"id BIGINT, customer STRING"', '"id BIGINT, customer"', "write a schema as in"),
        ('"id BIGINT, customer STRING"', '"id BIGIT"', "near 'BIGIT': write a schema as in"),
        ("name: orders\n", "name: ../orders\n", "'../orders' does not fit (use letters, digits, dots"),
        ("name: orders\n", "", "'name' is missing"),
        ("topic: {topic: orders.few, key: id}", "iceberg: {table: few}", "write namespace.table"),
        ("key: id}", "key: id, options: {compress-ion: gzip}}", "option compress-ion"),
        ("{topic: orders}", "{topic: orders, options: {transport: post}}", "option transport"),
        ("sinks:\n  - topic: {topic: orders.few, key: id}", "sinks: []", "name at least one sink"),
    ],
)
def test_a_mistake_is_told_in_words(old: str, new: str, told: str) -> None:
    found = problems(changed(old, new))

    assert any(told in line for line in found), found


def test_all_mistakes_in_one_part_are_told() -> None:
    found = problems(changed("name: orders\n", "name: a b\ntrigger_: 1s\nbroker: localhost\n"))

    assert [line.split(":")[0] for line in found] == ["line 2, name", "line 3, trigger_", "line 4, broker"]


def test_a_name_in_a_mapping_is_told_with_its_place() -> None:
    found = problems(
        changed("join: {with: towns, on: [customer]}", 'expect: {rules: {is_paid: "id > 1", "no dash-es": "id > 2"}}')
    )

    assert any("expect.rules: 'no dash-es' does not fit (use letters, digits and underscores)" in one for one in found)


def test_a_rule_is_not_called_as_the_count_of_rows() -> None:
    (found,) = problems(changed("join: {with: towns, on: [customer]}", 'expect: {rules: {rows: "id > 1"}}'))

    assert "expect.rules.rows: is how the count of all rows is called (give the rule another name)" in found


def test_a_start_that_is_none_is_told_before_the_run() -> None:
    (found,) = problems(changed("{topic: orders}", "{topic: orders, start: yesterday}"))

    assert "sources.orders.start: option startingOffsets: 'yesterday' is neither" in found
    assert "(write earliest, latest, a time with its zone, as in 2026-01-31T12:00:00Z, or offsets" in found
    assert load_text(changed("{topic: orders}", '{topic: orders, start: \'{"orders": {"0": 5}}\'}'))
    assert load_text(changed("{topic: orders}", "{topic: orders, start: 2026-01-01T00:00:00Z}"))
    assert problems(changed("{topic: orders}", "{topic: orders, start: 2026-01-01 00:00:00}")), "which zone?"


def test_a_table_is_divided_by_a_column_with_brackets_in_its_name() -> None:
    sink = "delta: {path: ./lake, partition_by: ['price (EUR)']}"
    pipeline = load_text(changed("topic: {topic: orders.few, key: id}", sink))

    assert [sink.partition_by for sink in pipeline.sinks.values()] == [["price (EUR)"]]


def test_a_change_has_no_column_that_steers() -> None:
    text = """\
        name: changes
        dead_letters: bad
        sources:
          changes: {topic: changes}
        steps:
          - debezium: {schema: "_id STRING, _op STRING"}
        sinks:
          - delta: {path: ./lake, mode: cdc, keys: [_id]}
    """

    (found,) = problems(text)

    assert "steps[0].debezium.schema: the step adds a column '_op' of its own" in found


def test_a_misspelt_field_is_one_mistake() -> None:
    (found,) = problems(changed("topic: {topic: orders.few, key: id}", "delta: {pth: ./few}"))

    assert "sinks[0].delta.pth: there is no field 'pth' (did you mean 'path'?)" in found


def test_whoever_refers_to_a_broken_part_is_not_blamed() -> None:
    found = problems(changed("parse: {name: parsed, ", "parse: {name: parsed, colour: red, "))

    assert len(found) == 1
    assert "colour" in found[0]


def test_a_step_in_python_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    text = changed("join: {with: towns, on: [customer]}", 'python: {function: "scoring:score", schema: "id BIGINT"}')
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(PipelineInvalid, match="no Python module 'scoring'"):
        load_file(file)

    (tmp_path / "scoring.py").write_text("def score(batches):\n    yield from batches\n")

    assert load_file(file).name == "orders"


def test_what_is_no_yaml_is_told_with_its_line() -> None:
    assert problems("name: x\nsources: [")[0].startswith("line 2")


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(PipelineInvalid, match="cannot read"):
        load_file(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_valid(example: str) -> None:
    assert load_text(example_text(example)).tests


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("delta: {path: ./lake, keys: [id]}", "sinks[0].delta.keys: appended rows are not merged (add mode:"),
        ("delta: {path: ./lake, mode: upsert, sequence: at}", "sinks[0].delta.keys: mode upsert needs the columns"),
        ("delta: {path: ./lake, mode: upsert, keys: [id]}", "sinks[0].delta.sequence: which of two rows with one key"),
        (
            "delta: {path: ./lake, mode: merge, keys: [id], sequence: at}",
            "sinks[0].delta.delete_when: mode merge needs a rule for deletes (without one, use mode: upsert)",
        ),
        (
            "delta: {path: ./lake, mode: upsert, keys: [id], sequence: at, delete_when: gone}",
            "sinks[0].delta.delete_when: mode upsert deletes nothing (use mode: merge)",
        ),
        (
            "delta: {path: ./lake, mode: cdc, keys: [id], delete_when: 'gone >'}",
            "sinks[0].delta.delete_when: not SQL",
        ),
        (
            "iceberg: {table: a.b, partition_by: ['week(at)']}",
            "sinks[0].iceberg.partition_by[0]: 'week(at)' is neither",
        ),
        ("iceberg: {table: a.b, partition_by: ['bucket(0, id)']}", "sinks[0].iceberg.partition_by[0]: 'bucket(0, id)'"),
        (
            "delta: {path: ./lake, partition_by: ['day(at)']}",
            "sinks[0].delta.partition_by[0]: 'day(at)' is no column: only Iceberg tables are divided by transforms",
        ),
        (
            "postgres: {url: 'mysql://x', table: t}",
            "sinks[0].postgres.url: 'mysql://x' does not fit (write postgresql://",
        ),
    ],
)
def test_a_table_sink_that_could_not_merge_is_refused(sink: str, told: str) -> None:
    (found,) = problems(changed("topic: {topic: orders.few, key: id}", sink))

    assert told in found


def test_changes_become_a_table_in_ten_lines() -> None:
    text = """\
        name: customers
        dead_letters: customers.bad
        sources:
          changes: {topic: shop.public.customers}
        steps:
          - debezium: {schema: "id BIGINT, name STRING, city STRING"}
        sinks:
          - postgres: {url: postgresql://shop@127.0.0.1/shop, table: customers, mode: cdc, keys: [id]}
    """

    assert load_text(dedent(text)).sinks["postgres"].reads() == ["debezium_1"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("orders: {topic: orders}", "orders: {topic: orders, table: o}", "sources.orders: say either topic, table or"),
        (
            "towns: {files: ./towns.json, format: json, schema",
            "towns: {table: towns, max_per_batch: 5, schema",
            "sources.towns.max_per_batch: a table is read as a whole",
        ),
        (
            "parse: {name: parsed, from: orders",
            "parse: {name: parsed, from: towns",
            "opens messages of a stream, and reads a table (give the table's source a schema)",
        ),
    ],
)
def test_a_table_is_not_a_stream(old: str, new: str, told: str) -> None:
    assert any(told in one for one in problems(changed(old, new)))


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("{a: 'id >'}", "steps[2].expect.rules.a: not SQL"),
        ("{a: {check: 'id > 1', then: burn}}", "steps[2].expect"),
        ("{a: {check: 'id > 1', fail_above: 1.5}}", "steps[2].expect"),
        ("{}", "steps[2].expect.rules"),
    ],
)
def test_a_rule_that_is_none_is_refused(rules: str, told: str) -> None:
    found = problems(changed('sql: {name: few, query: "SELECT p.id FROM parsed p"}', f"expect: {{rules: {rules}}}"))

    assert any(told in one for one in found), found


def test_a_rule_without_a_word_of_its_own_does_as_its_step() -> None:
    step = "expect: {then: drop, rules: {a: 'id > 1', b: {check: 'id < 9', then: fail}}}"
    pipeline = load_text(changed('sql: {name: few, query: "SELECT p.id FROM parsed p"}', step))

    rules = pipeline.steps["expect_3"].rules_by_name()  # type: ignore[attr-defined]
    assert {name: rule.then for name, rule in rules.items()} == {"a": "drop", "b": "fail"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stop", "sinks[0].topic.name: 'stop' is the name of the file by which a run is asked to end (give the sink"),
        ("dead_letters", "sinks[0].topic.name: 'dead_letters' is the name of the query that writes the dead letters"),
        ("shared_few", "sinks[0].topic.name: 'shared_few' is the name of a read that sinks of 'few' share"),
    ],
)
def test_a_sink_whose_checkpoint_would_lie_in_the_place_of_something_else_is_refused(name: str, told: str) -> None:
    text = changed("topic: {topic: orders.few, key: id}", f"topic: {{name: {name}, topic: orders.few, key: id}}")

    assert any(told in problem for problem in problems(f"{text}shared_reads: true\n"))


@pytest.mark.parametrize("url", ["postgresql://u:s3%cret@h/d", "postgresql://u:s3@cret@h/d", "mysql://u:s3cret@h/d"])
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    found = problems(changed("topic: {topic: orders.few, key: id}", f"postgres: {{url: '{url}', table: few}}"))

    assert [problem.partition(":")[0].partition(", ")[2] for problem in found] == ["sinks[0].postgres.url"]
    assert "cret" not in str(found)


@pytest.mark.parametrize(
    "url", ["postgresql://u:s3%40cret@h/d", "postgresql://h/d?options=-c%20a%3D1", "postgres:///d"]
)
def test_a_url_with_percent_signs_in_their_places_is_taken(url: str) -> None:
    load_text(changed("topic: {topic: orders.few, key: id}", f"postgres: {{url: '{url}', table: few}}"))
