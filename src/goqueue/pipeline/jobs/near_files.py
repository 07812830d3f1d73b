"""Files of a store as files that Spark can read: fetched to this machine where Spark runs on it alone.

Spark as it is installed opens no store. A session that has a Hadoop file system for the scheme (`spark.jars`,
`spark.hadoop.fs.s3a.*`) reads the address itself; so must a cluster, whose workers do not see files of this machine.
Fetched files lie in the session's temporary folder, which the next session removes after a kill.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.backup.addresses import is_store, open_files, scheme_of
from goqueue.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COPY_BYTES = 4 * 1024 * 1024


def stored_files(address: str) -> dict[str, int]:
    """The files that an address names, with their sizes: one, all below a folder, or those of a pattern.

    Files whose name, or a folder of it, begins with an underscore or a dot are left out, as Spark does.
    """
    files, path = open_files(address, "files")
    files.invalidate_cache()
    if set("*?[{").intersection(path):
        found = {name: one for name, one in files.glob(path, detail=True).items() if one["type"] == "file"}
        base = path[: min(path.index(one) for one in "*?[{" if one in path)].rpartition("/")[0]
    else:
        found, base = files.find(path, detail=True), path
    sizes = {str(name): int(one["size"]) for name, one in found.items()}
    return {name: size for name, size in sizes.items() if not _is_hidden(name.removeprefix(base))}


@contextmanager
def near_files(spark: SparkSession, address: str) -> Iterator[str]:
    """The same files where Spark can read them."""
    if not is_store(address) or _opens(spark, scheme_of(address) or ""):
        yield address
        return
    if not spark.sparkContext.master.startswith("local"):
        raise InvalidRequest(
            f"files: {address} cannot be read by {spark.sparkContext.master}",
            field="files",
            hint="give the session a Hadoop file system, as with --packages org.apache.hadoop:hadoop-aws, and s3a://",
        )
    files, path = open_files(address, "files")
    folder = Path(tempfile.mkdtemp(prefix="fetched-", dir=spark.conf.get("spark.local.dir", None)))
    try:
        for name, size in stored_files(address).items():
            near = folder / name
            near.parent.mkdir(parents=True, exist_ok=True)
            with near.open("wb") as writer:
                for first in range(0, size, _COPY_BYTES):
                    writer.write(files.cat_file(name, start=first, end=min(first + _COPY_BYTES, size)))
            if near.stat().st_size != size:
                raise InvalidRequest(f"{name} became shorter while it was fetched", field="files")
        yield f"{folder}/{path}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _opens(spark: SparkSession, scheme: str) -> bool:
    """Whether the session has a file system for a scheme."""
    settings = dict(spark.sparkContext.getConf().getAll())
    return any(name.startswith(("spark.jars", f"spark.hadoop.fs.{scheme}.")) for name in settings)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))
