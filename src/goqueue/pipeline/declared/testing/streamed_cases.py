"""The second half of a test: the rows go through the pipeline as a stream, in several micro-batches.

A table hides what only a stream refuses, such as a second watermark. Where no step waits for late rows, a stream must
give what the table gave; windows that no watermark has closed are not written, so there it must only run.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from goqueue.pipeline.declared.checks.streams import before, keeps_state
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline, Rows
from goqueue.pipeline.declared.form.steps import ForeachBatch
from goqueue.pipeline.declared.frames.build import build
from goqueue.pipeline.declared.frames.subjects import decoded_json
from goqueue.pipeline.errors import PipelineError, told_by_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from goqueue.pipeline.declared.frames.build import Built

BATCHES = 3
_SECONDS_MAX = 120
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)

Message = tuple[Any, ...]
ReadTable = Callable[[str, Source], "DataFrame"]


def stream_rows(
    pipeline: Pipeline,
    spark: SparkSession,
    messages: Mapping[str, Sequence[Message]],
    table: ReadTable,
    choose: Callable[[Built], DataFrame],
    mode: str = "append",
    kinds: Mapping[str, DataType] = MappingProxyType({}),
) -> Rows:
    """What the stream writes of the frame that `choose` picks; raises PipelineError if it fails.

    `kinds` are the types of values of sources with a subject.
    """
    with tempfile.TemporaryDirectory(prefix="goqueue-test-") as home:

        def read(name: str, source: Source) -> DataFrame:
            if not source.is_stream:
                return table(name, source)
            folder = Path(home) / "sources" / name
            _write(folder, messages[name])
            reader = spark.readStream.schema(spark.read.parquet(str(folder)).schema)
            frame = reader.option("maxFilesPerTrigger", "1").parquet(str(folder))
            return decoded_json(frame, kinds[name]) if name in kinds else frame

        seen = f"goqueue_test_{uuid.uuid4().hex}"
        try:
            frame = choose(build(pipeline, read))
            writer = frame.writeStream.format("memory").queryName(seen).outputMode(mode)
            query = writer.option("checkpointLocation", f"{home}/state").trigger(availableNow=True).start()
            if not query.awaitTermination(_SECONDS_MAX):
                query.stop()
                raise PipelineError(f"it did not end within {_SECONDS_MAX} s")
            return [row.asDict(recursive=True) for row in spark.table(seen).collect()]
        except PySparkException as error:
            raise PipelineError(told_by_spark(error)) from None
        finally:
            spark.catalog.dropTempView(seen)


def is_stateful(pipeline: Pipeline, name: str) -> bool:
    """Whether this step, or one on the way to it, remembers rows from batch to batch."""
    return any(keeps_state(pipeline, step) for step in before(pipeline, name).values())


def takes_batches(pipeline: Pipeline, name: str) -> bool:
    """Whether a function over batches is on the way: there is no stream behind it that could be looked at."""
    return any(isinstance(step, ForeachBatch) for step in before(pipeline, name).values())


def _write(folder: Path, messages: Sequence[Message]) -> None:
    """A file for each micro-batch, in the order of their times."""
    folder.mkdir(parents=True)
    share = max(-(-len(messages) // BATCHES), 1)
    for number in range(BATCHES):
        rows = messages[number * share : (number + 1) * share]
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        arrays = [pa.array(map(_plain, column), field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        file = folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA), file)
        os.utime(file, (number, number))


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
