"""Where backups and exports may lie: a folder, a `file://` address, or an address of a store that fsspec opens.

`s3://` and `s3a://` need the package s3fs, `gs://` gcsfs, `abfs://`, `abfss://` and `az://` adlfs. Credentials come
from where these packages look for them, never from us. An address that nothing here can open is refused here, before
anything runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from goqueue.errors import ConfigError, InvalidRequest

# Windows' drive letters are no schemes; a folder that really has such a name is written ./s3a:/x.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(path: str | Path) -> str | None:
    """The scheme of an address, in lower case; None for a plain path."""
    found = _SCHEME.match(str(path))
    return found[1].lower() if found else None


def is_store(path: str | Path) -> bool:
    """Whether it is an address of a store, and not a folder of this machine."""
    return scheme_of(path) not in (None, "file")


def file_path(address: str | Path) -> Path:
    """The folder or file of a plain path or a `file://` address."""
    if scheme_of(address) is None:
        return Path(address)
    rest = re.sub(r"^/*", "/", str(address)[len("file:") :].removeprefix("//localhost"))
    return Path(unquote(rest))


def as_written(path: str | Path) -> str:
    """An address as the user wrote it: a `Path` has lost one of its two slashes."""
    return re.sub(r":/+", "://", str(path), count=1) if isinstance(path, Path) and is_store(path) else str(path)


def open_files(address: str | Path, field: str = "target") -> tuple[Any, str]:
    """The file system of a store, and the path in it; raises for an address that nothing here can open."""
    url = as_written(address)
    scheme, _, rest = url.partition("://")
    if not rest.strip("/"):
        raise InvalidRequest(f"{url} names no bucket", field=field, hint="as in s3://bucket/folder")
    try:
        import fsspec
    except ModuleNotFoundError:
        raise ConfigError([f"{url}: addresses of stores need fsspec: pip install 'goqueue[remote]'"]) from None
    try:
        files, root = fsspec.core.url_to_fs(f"{scheme.lower()}://{rest}")
    except ImportError as error:
        raise ConfigError([f"{url}: {error}"]) from None
    except ValueError:
        raise InvalidRequest(
            f"{url}: there is no scheme {scheme!r}",
            field=field,
            hint="name a folder, or an address that begins with file://, s3://, s3a://, gs://, abfs:// or az://",
        ) from None
    return files, str(root).rstrip("/")
