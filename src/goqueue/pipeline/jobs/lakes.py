"""Making exported Parquet files a table: one commit that names them all.

A Delta table lies in the folder itself and appears with it. An Iceberg table lies elsewhere and
names files by their full path, so they must be in place before it can name them; a mark in the
folder says that this is still to come.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from goqueue.backup.addresses import is_store, open_files
from goqueue.errors import ConfigError, InvalidRequest
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_PENDING = "_not_in_the_table_yet"


def make_delta(folder: str, files: Sequence[Mapping[str, Any]]) -> None:
    """Make the folder a Delta table of the files in it."""
    try:
        from deltalake import Field, Schema, convert_to_deltalake
    except ImportError as error:
        raise _missing("deltalake") from error
    if files:
        parts = Schema([Field("topic", "string"), Field("partition", "integer"), Field("day", "string")])
        convert_to_deltalake(folder.replace("s3a://", "s3://", 1), partition_by=parts, partition_strategy="hive")


def mark_pending(folder: str) -> None:
    """Say that no table names the files of this folder yet. In a store the missing manifest says so."""
    if not is_store(folder):
        (Path(folder) / _PENDING).touch()


def is_pending(folder: str) -> bool:
    """Whether an export to this folder was killed before its table named the files, or just after that."""
    if not is_store(folder):
        return (Path(folder) / _PENDING).exists()
    files, root = open_files(folder)
    return bool(files.exists(f"{root}/_exporting/begun"))


def add_to_iceberg(folder: str, files: Sequence[Mapping[str, Any]], table: str, settings: Mapping[str, str]) -> None:
    """Add the files to an Iceberg table, made with their columns if it is not there."""
    catalog = _catalog(settings)
    if files:
        catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
        target = catalog.create_table_if_not_exists(table, schema=_schema_of(folder, files[0]["path"]))
        target.add_files([f"{_absolute(folder)}{file['path']}" for file in files])
    reached("export-added", 0)
    if not is_store(folder):
        (Path(folder) / _PENDING).unlink()


def sweep_pending(folder: str, table: str, settings: Mapping[str, str]) -> None:
    """Remove what an export left that was killed before its table knew of it; one that is complete is refused.

    What lies in a store stays: the next run goes on with it.
    """
    catalog = _catalog(settings)
    within = _absolute(folder)
    if catalog.table_exists(table) and any(
        within in task.file.file_path for task in catalog.load_table(table).scan().plan_files()
    ):
        # Killed after the commit. To a new folder, the same export would put every row into the table twice.
        if not is_store(folder):
            (Path(folder) / _PENDING).unlink()
        raise InvalidRequest(f"{folder} holds an export that is complete: table {table} has its files", field="to")
    if not is_store(folder):
        shutil.rmtree(folder)


def _absolute(folder: str) -> str:
    """As an Iceberg table names what lies in it."""
    if is_store(folder):
        return f"{folder.rstrip('/').replace('s3a://', 's3://', 1)}/"
    return f"{Path(folder).resolve()}/"


def _schema_of(folder: str, path: str) -> Any:
    if not is_store(folder):
        return pq.read_schema(Path(folder) / path)
    files, root = open_files(folder)
    return pq.read_schema(f"{root}/{path}", filesystem=files)


def _catalog(settings: Mapping[str, str]) -> Catalog:
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise _missing("pyiceberg") from error
    try:
        return load_catalog(**settings)
    except (ValueError, KeyError) as error:
        raise InvalidRequest(
            f"the Iceberg catalog cannot be opened: {error}",
            field="catalog",
            hint="as in: --catalog type=sql --catalog uri=sqlite:///catalog.db --catalog warehouse=file:///data/lake",
        ) from None


def _missing(package: str) -> ConfigError:
    return ConfigError([f"this format needs the package {package}: pip install 'goqueue[lake]'"])
