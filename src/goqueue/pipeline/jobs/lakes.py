"""Making exported Parquet files a table: one commit that names them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from goqueue.errors import ConfigError, InvalidRequest


def commit_delta(to: Path, files: Sequence[Mapping[str, Any]]) -> None:
    """Make the folder a Delta table of the files in it."""
    try:
        from deltalake import DeltaTable, Field, Schema, convert_to_deltalake
    except ImportError as error:
        raise _missing("deltalake") from error
    if DeltaTable.is_deltatable(str(to)):
        raise InvalidRequest(f"{to} is a Delta table already: export to a new folder", field="to")
    if files:
        parts = Schema([Field("topic", "string"), Field("partition", "integer"), Field("day", "string")])
        convert_to_deltalake(str(to), partition_by=parts, partition_strategy="hive")


def commit_iceberg(to: Path, files: Sequence[Mapping[str, Any]], table: str, catalog: Mapping[str, str]) -> None:
    """Add the files to an Iceberg table, made with their columns if it is not there."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise _missing("pyiceberg") from error
    if not files:
        return
    found = load_catalog("goqueue", **catalog)
    found.create_namespace_if_not_exists(table.rpartition(".")[0])
    schema = pq.read_schema(to / files[0]["path"])
    target = found.create_table_if_not_exists(table, schema=schema)
    target.add_files([str((to / file["path"]).resolve()) for file in files])


def _missing(package: str) -> ConfigError:
    return ConfigError([f"this format needs the package {package}: pip install 'goqueue[lake]'"])
