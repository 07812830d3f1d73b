"""Sources and sinks that name a subject: mistakes that are told without a registry."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.pipeline.declared.form.problems import PipelineInvalid
from goqueue.pipeline.declared.load import load_text

GOOD = """
name: typed
dead_letters: orders.bad
sources:
  orders: {topic: orders, subject: orders-value, version: 2, keep: [key, offset]}
  customers: {table: customers, subject: customers-value}
steps:
  - join: {name: both, from: orders, with: customers, on: [id]}
sinks:
  - topic: {topic: clean, subject: clean-value, register: avro}
"""


def problems(text: str, **options: Any) -> list[str]:
    with pytest.raises(PipelineInvalid) as caught:
        load_text(text, **options)
    return caught.value.problems


def test_a_subject_gives_a_source_its_columns_and_dead_letters() -> None:
    pipeline = load_text(GOOD)

    assert pipeline.dead_letter_origins() == ["orders"]
    assert pipeline.sources["orders"].version == 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("dead_letters: orders.bad\n", "", "dead_letters: rows that cannot be parsed"),
        ("subject: orders-value, version: 2, keep", "version: 2, keep", "version: is for a source with a subject"),
        ("subject: orders-value, version: 2, keep", "keep", "keep: is for a source with a subject"),
        ("version: 2", "version: 0", "sources.orders.version"),
        ("version: 2", "version: newest", "sources.orders.version"),
        ("version: 2", 'schema: "id BIGINT"', "sources.orders.schema: the columns come from the subject"),
        ("keep: [key, offset]", "keep: [value]", "sources.orders.keep"),
        ("keep: [key, offset]", "options: {schema: registry}", "options.schema: is decided by subject"),
        ("subject: customers-value", "subject: customers-value, undecodable: column", "fails the batch"),
        ("{table: customers, ", "{files: ./c.json, ", "files have no subject"),
        ("register: avro", "register: avro, version: 1", "drop version: or register:"),
        ("register: avro", "register: avro, mode: complete", "complete compares values"),
        ("subject: clean-value, register", "register", "register: is for a sink with a subject"),
        ("register: avro", "register: protobuf", "register"),
        ("name: typed\n", "name: typed\nregistry: localhost:8080\n", "write http://host:8080"),
        (
            "  - join: {name: both, from: orders, with: customers, on: [id]}",
            '  - parse: {from: orders, schema: "id BIGINT"}',
            "reads a source whose subject gives it columns",
        ),
    ],
)
def test_a_mistake_is_told_in_words(old: str, new: str, told: str) -> None:
    assert old in GOOD

    found = problems(GOOD.replace(old, new))

    assert any(told in line for line in found), found
