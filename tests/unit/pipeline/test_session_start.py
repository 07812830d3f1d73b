"""How Spark is started: what its command line shows, and what the program for spark-submit takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from pyspark import SparkConf, SparkContext

from goqueue.pipeline.declared.main import asked
from goqueue.pipeline.spark import session


def test_secrets_are_not_in_the_command_line_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[SparkConf] = []
    monkeypatch.setattr(SparkContext, "_jvm", None)

    def ensure_initialized(*, conf: SparkConf) -> None:
        started.append(conf)

    monkeypatch.setattr(SparkContext, "_ensure_initialized", ensure_initialized)
    secrets = {
        "spark.hadoop.fs.s3a.secret.key": "s3cret",
        "spark.hadoop.fs.s3a.access.key": "s3cret",
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "s3cret",
        "spark.sql.catalog.lake.token": "s3cret",
    }

    session._start_jvm({"spark.master": "local[2]", "spark.driver.memory": "1g", **secrets})

    assert dict(started[0].getAll()) == {"spark.master": "local[2]", "spark.driver.memory": "1g"}


def test_the_program_for_spark_submit_takes_a_file_an_environment_and_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GOQUEUE_PIPELINE_ENV", raising=False)
    assert asked(["p.yaml"]) == (Path("p.yaml"), None, {})
    assert asked(["p.yaml", "--env=prod", "where=a = 1"]) == (Path("p.yaml"), "prod", {"where": "a = 1"})
    monkeypatch.setenv("GOQUEUE_PIPELINE_ENV", "qa")
    assert asked(["p.yaml"])[1] == "qa"


@pytest.mark.parametrize("words", [["--env", "prod"], ["--environment=prod"], ["prod"]])
def test_a_word_that_the_program_does_not_know_ends_it(words: Any) -> None:
    # What it passed over before was the environment, and the pipeline ran with the values of another.
    with pytest.raises(SystemExit, match="is neither --env=NAME nor NAME=VALUE"):
        asked(["p.yaml", *words])
