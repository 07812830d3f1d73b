"""Statistics of a Parquet file as Delta's log has them: rows, and lowest, highest and missing values per column."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Columns beyond these have none, as Delta's own writers have it.
_COLUMNS_MAX = 32
_TEXT_MAX = 64
# Above every character: the highest value of a column whose texts are cut begins with the cut one.
_HIGHEST = "\U0010ffff"
_MS = dt.timedelta(milliseconds=1)


def delta_statistics(footer: pq.FileMetaData, schema: pa.Schema) -> str:
    """The statistics of a file, from its footer, as the JSON text of an add action."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in schema.names[:_COLUMNS_MAX]:
        column = _column(footer, name)
        if column is None:
            continue
        bounds, missing = column
        if missing is not None:
            nulls[name] = missing
        if bounds is not None:
            low, high = _low(bounds[0]), _high(bounds[1])
            if low is not None and high is not None:
                lows[name], highs[name] = low, high
    return json.dumps({"numRecords": footer.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls})


def _column(footer: pq.FileMetaData, name: str) -> tuple[tuple[Any, Any] | None, int | None] | None:
    """Bounds and missing values of a plain column over all row groups; None for a nested one."""
    at = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == name), None)
    if at is None:
        return None
    low: Any = None
    high: Any = None
    missing: int | None = 0
    is_bounded = True
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(at)
        found = chunk.statistics
        if found is None or not found.has_null_count:
            return None, None
        missing += found.null_count
        if found.has_min_max:
            low = found.min if low is None else min(low, found.min)
            high = found.max if high is None else max(high, found.max)
        elif found.null_count < chunk.num_values:
            is_bounded = False
    return ((low, high) if is_bounded and low is not None else None), missing


def _low(value: Any) -> Any:
    match value:
        case str():
            return value[:_TEXT_MAX]
        case dt.datetime():
            return _time(value - dt.timedelta(microseconds=value.microsecond % 1000))
        case _:
            return _plain(value)


def _high(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + _HIGHEST
        case dt.datetime():
            # Delta keeps milliseconds: rounded up, so that the highest value is not above its bound.
            rest = value.microsecond % 1000
            return _time(value - dt.timedelta(microseconds=rest) + (_MS if rest else dt.timedelta()))
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case dt.date():
            return value.isoformat()
        case _:
            return None


def _time(value: dt.datetime) -> str:
    text = value.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
