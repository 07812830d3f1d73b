"""PySpark's Python data source API as of 4.2, and what stands in for the parts that 4.0 and 4.1 lack.

4.0 hands no filters down and writes streams row by row. Before 4.2 a stream reader is asked for its latest offset
without being told where the batch begins: see `StreamReader.latestOffset`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamArrowWriter,
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.types import StructType

    HAS_ARROW_STREAM_WRITER = HAS_ADMISSION_CONTROL = True
else:
    from pyspark.sql import datasource

    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        HAS_ADMISSION_CONTROL = True
    except ImportError:
        # Nobody asks for limits there; the classes are only named.
        HAS_ADMISSION_CONTROL = False
        ReadAllAvailable = ReadLimit = type("ReadAllAvailable", (), {})
        ReadMaxBytes = ReadMaxRows = ReadMinRows = type("ReadMax", (), {"__init__": lambda *_: None})
        SupportsTriggerAvailableNow = type("SupportsTriggerAvailableNow", (), {})

    HAS_ARROW_STREAM_WRITER = hasattr(datasource, "DataSourceStreamArrowWriter")
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
    _NO_FILTER = type("Filter", (), {})
    Filter, EqualNullSafe, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual = (
        getattr(datasource, name, _NO_FILTER)
        for name in (
            *("Filter", "EqualNullSafe", "EqualTo", "GreaterThan", "GreaterThanOrEqual"),
            *("In", "IsNotNull", "LessThan", "LessThanOrEqual"),
        )
    )

__all__ = [
    "HAS_ADMISSION_CONTROL",
    "HAS_ARROW_STREAM_WRITER",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "IsNotNull",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "as_arrow",
]
_ROWS = 10_000


def as_arrow(rows: Iterator[Any], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Rows, as PySpark 4.0 hands them to a streaming sink, as Arrow batches."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = to_arrow_schema(schema)
    while chunk := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist([row.asDict(recursive=True) for row in chunk], schema=kinds)
