"""Rows of Iceberg tables deleted in files beside theirs, as Spark and Flink do it and pyiceberg does not."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.typedef import Record

# The numbers that the columns of such files have in every table.
_PATH, _POSITION = 2147483546, 2147483545


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_first_row(table: Any, *, by_value: str | None = None) -> None:
    """Delete the first row of the first file of a table, by its position or by the value 1 of a column."""
    first = next(iter(table.scan().plan_files())).file.file_path
    place = f"{table.location()}/data/deletes-{uuid.uuid4().hex}.parquet"
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH)}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION)}),
        ]
    )
    path = place.removeprefix("file://")
    rows = pa.table({"file_path": [first], "pos": [0]}, schema=schema)
    column = None if by_value is None else table.schema().find_field(by_value).field_id
    if column is not None:
        field = pa.field(by_value, pa.int64(), metadata={"PARQUET:field_id": str(column)})
        rows = pa.table({by_value: [1]}, schema=pa.schema([field]))
    pq.write_table(rows, path)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES if column is None else DataFileContent.EQUALITY_DELETES,
        equality_ids=None if column is None else [column],
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=pa.OSFile(path).size(),
        lower_bounds={_PATH: first.encode()} if column is None else None,
        upper_bounds={_PATH: first.encode()} if column is None else None,
    )
    deletes.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        append = transaction.update_snapshot().fast_append()
        existing = append._existing_manifests

        def manifests() -> list[ManifestFile]:
            output = append.new_manifest_output()
            with _DeletesWriter(table.spec(), table.schema(), output, append.snapshot_id, "deflate") as writer:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=append.snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=deletes,
                )
                writer.add(entry)
            return [*existing(), writer.to_manifest_file()]

        append._existing_manifests = manifests
        append.commit()
