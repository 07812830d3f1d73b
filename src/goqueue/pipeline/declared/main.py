"""Runs a pipeline to its end: the loop behind `goqueue pipeline run`, and a program for spark-submit.

spark-submit --master spark://host:7077 .../goqueue/pipeline/declared/main.py pipeline.yaml [--env=NAME] [NAME=VALUE]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.errors import GoQueueError
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.load import load_file
from goqueue.pipeline.declared.running.history import History
from goqueue.pipeline.declared.running.live import LivePage
from goqueue.pipeline.declared.running.metrics import served
from goqueue.pipeline.declared.running.run import PipelineRun
from goqueue.pipeline.declared.running.run_files import FAILED, RUNNING, STOPPED, RunFiles
from goqueue.pipeline.spark.stores import refuse_closed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Show = Callable[[Sequence[dict[str, Any]]], None]

_LOOK_S = 0.5


def run_until_stopped(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    folder: Path,
    watch: Show = lambda _: None,
    metrics: str | None = None,
) -> list[dict[str, Any]]:
    """Run until all is read, somebody asks it to stop, or a sink fails for good; returns the last status.

    `metrics` is the address at which Prometheus finds the numbers of the run, such as 127.0.0.1:9464.
    """
    refuse_closed(spark, pipeline.checkpoint_path, "checkpoint")
    files = RunFiles(pipeline)
    with files.held():
        history = History(pipeline)
        run = PipelineRun(
            pipeline, spark, now_ms=lambda: time.monotonic_ns() // 1_000_000, folder=folder, note=history.note
        )
        with served(pipeline, run.status, metrics):
            return _run(files, history, run, pipeline, watch)


def _run(files: RunFiles, history: History, run: PipelineRun, pipeline: Pipeline, watch: Show) -> list[dict[str, Any]]:
    state, error = FAILED, None
    live = LivePage(pipeline) if pipeline.live else None
    try:
        while not run.step() and not files.is_asked_to_stop:
            files.write({"name": pipeline.name, "state": RUNNING, "sinks": run.status()})
            if live is not None:
                live.tell(RUNNING, None, run.status())
            watch(run.status())
            time.sleep(_LOOK_S)
        state = STOPPED
    except KeyboardInterrupt:
        state = STOPPED
    except GoQueueError as failed:
        error = str(failed)
        raise
    finally:
        run.stop()
        history.flush()
        files.write({"name": pipeline.name, "state": state, "error": error, "sinks": run.status()})
        if live is not None:
            live.tell(state, error, run.status())
            live.close()
        watch(run.status())
    return run.status()


def asked(words: Sequence[str]) -> tuple[Path, str | None, dict[str, str]]:
    """The file, its environment and parameters; ends the program at a word that is none of them."""
    environment, given = os.environ.get("GOQUEUE_PIPELINE_ENV"), {}
    for word in words[1:]:
        name, is_value, value = word.partition("=")
        if not is_value or (name.startswith("-") and name != "--env"):
            # As `--env production`: with the values of another environment it would write to another place.
            sys.exit(f"{word!r} is neither --env=NAME nor NAME=VALUE")
        if name == "--env":
            environment = value
        else:
            given[name] = value
    if not words:
        sys.exit("which pipeline? write main.py pipeline.yaml [--env=NAME] [NAME=VALUE]")
    return Path(words[0]), environment, given


def main() -> None:
    """The program for spark-submit, whose own settings go before those of the file."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    file, environment, given = asked(sys.argv[1:])
    pipeline = load_file(file, environment=environment, given=given)
    # Before, no setting of the command is known here.
    SparkContext._ensure_initialized()  # noqa: SLF001 - there is no other way
    submitted = SparkConf()
    builder = SparkSession.builder.appName(pipeline.name)
    for name, value in pipeline.settings.items():
        if not submitted.contains(name):
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    run_until_stopped(pipeline, spark, folder=file.resolve().parent, metrics=os.environ.get("GOQUEUE_PIPELINE_METRICS"))


if __name__ == "__main__":
    main()
