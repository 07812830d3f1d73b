"""Paths as users write them: folders of this machine, `file://` addresses, and addresses of stores.

A `Path` of `s3a://bucket/x` is the local folder `s3a:/bucket/x`: whoever takes a path asks here first, so that an
address that nothing here can write to is refused before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

from goqueue.errors import InvalidRequest

# Windows' drive letters are no schemes; a folder that really has such a name is written ./s3a:/x.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
# What Spark opens as it is installed.
SPARK_SCHEMES = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs"})
# What the package deltalake opens by itself.
DELTA_SCHEMES = frozenset({"file", "s3", "s3a", "gs", "az", "abfs", "abfss"})


def scheme_of(path: str | Path) -> str | None:
    """The scheme of an address, in lower case; None for a plain path."""
    found = _SCHEME.match(str(path))
    return found[1].lower() if found else None


def local_path(path: str | Path, field: str) -> Path:
    """The folder or file of this machine that is meant; raises for an address of anything else."""
    refuse_scheme(path, field, {"file"})
    if scheme_of(path) is None:
        return Path(path)
    rest = re.sub(r"^/*", "/", str(path)[len("file:") :].removeprefix("//localhost"))
    return Path(unquote(rest))


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
        f"{field}: {_as_written(path)} cannot be used here: {scheme}:// is not supported",
        field=field,
        hint=f"use a folder of this machine, or an address that begins with {told}",
    )


def _as_written(path: str | Path) -> str:
    """A `Path` has lost one of the two slashes."""
    return re.sub(r":/+", "://", str(path), count=1) if isinstance(path, Path) else path
