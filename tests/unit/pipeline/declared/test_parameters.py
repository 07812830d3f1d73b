"""Parameters of a pipeline file: one file, several environments."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from goqueue.pipeline.declared.form.problems import PipelineInvalid
from goqueue.pipeline.declared.load import load_text

TEXT = dedent(
    """\
    name: orders_${stage}
    parameters: {stage: dev, broker: "127.0.0.1:9092", per_batch: 10, strict: true}
    environments:
      production: {stage: prod, broker: "kafka:9092", per_batch: 1000}
    broker: ${broker}
    sources:
      orders: {topic: orders, max_per_batch: "${per_batch}", fail_on_data_loss: "${strict}"}
    steps:
      - filter: {where: "town = '$${town}' AND stage = '${stage}'"}
    sinks:
      - console: {}
    """
)


def test_a_file_without_an_environment_has_the_values_of_its_parameters() -> None:
    pipeline = load_text(TEXT)

    assert (pipeline.name, pipeline.broker) == ("orders_dev", "127.0.0.1:9092")
    source = pipeline.sources["orders"]
    assert (source.max_per_batch, source.fail_on_data_loss) == (10, True)
    assert pipeline.steps["filter_1"].where == "town = '${town}' AND stage = 'dev'"  # type: ignore[attr-defined]


def test_an_environment_goes_before_the_parameters_and_what_is_given_before_both() -> None:
    pipeline = load_text(TEXT, environment="production", given={"per_batch": "7", "strict": "false"})

    assert (pipeline.name, pipeline.broker) == ("orders_prod", "kafka:9092")
    assert (pipeline.sources["orders"].max_per_batch, pipeline.sources["orders"].fail_on_data_loss) == (7, False)


def test_a_variable_of_the_process_is_a_parameter_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_BROKER", "other:9092")

    assert load_text(TEXT.replace("broker: ${broker}", "broker: ${env:ORDERS_BROKER}")).broker == "other:9092"


def test_a_parameter_may_be_a_variable_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_BROKER", "other")
    text = TEXT.replace('"kafka:9092"', '"${env:ORDERS_BROKER}:9092"').replace("stage: prod", "stage: '${env:NOT_SET}'")

    assert load_text(text).broker == "127.0.0.1:9092"
    assert load_text(text, environment="production", given={"stage": "prod"}).broker == "other:9092"


@pytest.mark.parametrize(
    ("old", "new", "options", "told"),
    [
        (
            "stage: prod",
            "stage: '${env:NOT_SET}'",
            {"environment": "production"},
            "line 4, environments.production.stage: the variable NOT_SET is not set in this process",
        ),
        ("stage: dev", "stage: '${broker}'", {}, "line 2, parameters.stage: takes ${env:NAME} only, not ${broker}"),
        ("${stage}'", "${stge}'", {}, "line 9, steps[0].filter.where: there is no parameter 'stge' (there are broker"),
        ("x", "x", {"environment": "qa"}, "there is no environment 'qa' (there are production)"),
        ("x", "x", {"given": {"colour": "red"}}, "there is no parameter 'colour' to set"),
        ("{stage: prod", "{stagge: prod", {}, "line 4, environments.production.stagge: is not a parameter"),
        (
            "broker: ${broker}",
            "broker: ${env:NOT_SET_HERE}",
            {},
            "line 5, broker: the variable NOT_SET_HERE is not set",
        ),
        ("per_batch: 10,", "per_batch: [10],", {}, "parameters.per_batch: must be a text, a number, true or false"),
    ],
)
def test_a_parameter_that_leads_nowhere_is_told_with_its_line(
    old: str, new: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(PipelineInvalid) as caught:
        load_text(TEXT.replace(old, new), **options)

    assert any(told in one for one in caught.value.problems), caught.value.problems
