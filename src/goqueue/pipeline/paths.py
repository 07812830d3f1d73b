"""Paths as users write them: folders of this machine, `file://` addresses, and addresses of stores.

A `Path` of `s3a://bucket/x` is the local folder `s3a:/bucket/x`: whoever takes a path asks here first, so that an
address that nothing here can write to is refused before anything runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from goqueue.backup.addresses import as_written, file_path, is_store, open_files, scheme_of
from goqueue.errors import InvalidRequest

__all__ = [
    "DELTA_SCHEMES",
    "SPARK_SCHEMES",
    "is_store",
    "local_path",
    "refuse_scheme",
    "scheme_of",
    "spark_address",
    "store_path",
]

# What Spark opens as it is installed.
SPARK_SCHEMES = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs"})
# Names of stores that Hadoop knows by another.
_OF_HADOOP = {"s3": "s3a", "az": "abfs"}
# What the package deltalake opens by itself.
DELTA_SCHEMES = frozenset({"file", "s3", "s3a", "gs", "az", "abfs", "abfss"})


def local_path(path: str | Path, field: str) -> Path:
    """The folder or file of this machine that is meant; raises for an address of anything else."""
    refuse_scheme(path, field, {"file"})
    return file_path(path)


def store_path(path: str | Path, field: str) -> str:
    """A folder of this machine, or the address of a store, as its user wrote it; raises if nothing here opens it."""
    if not is_store(path):
        return str(file_path(path))
    open_files(path, field)
    return as_written(path)


def spark_address(path: str) -> str:
    """The same place as Hadoop's file systems name it."""
    scheme = scheme_of(path)
    known = _OF_HADOOP.get(scheme or "")
    return path if known is None else f"{known}{path[len(str(scheme)) :]}"


def refuse_scheme(
    path: str | Path, field: str, known: Collection[str], settings: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Raise for an address whose scheme is not known; `settings` of Spark may bring more by jars of their own."""
    scheme = scheme_of(path)
    if scheme is None or scheme in known:
        return
    if any(name.startswith(("spark.jars", f"spark.hadoop.fs.{scheme}.")) for name in settings):
        return
    told = ", ".join(f"{one}://" for one in sorted(known))
    raise InvalidRequest(
        f"{field}: {as_written(path)} cannot be used here: {scheme}:// is not supported",
        field=field,
        hint=f"use a folder of this machine, or an address that begins with {told}",
    )
