"""The folder of a Delta table as a file system: of this machine, or in a store that deltalake opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from goqueue.pipeline.paths import scheme_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def table_folder(uri: str, options: Mapping[str, str]) -> FileSystem:
    """Paths in it are those of the table's log."""
    if scheme_of(uri) is None:
        return SubTreeFileSystem(uri, LocalFileSystem())
    from deltalake.fs import DeltaStorageHandler

    class Handler(DeltaStorageHandler):
        """The handler of deltalake, whose streams take `bytes` where Arrow hands over its own buffers."""

        def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
            return pa.PythonFile(_Stream(self._handler.open_output_stream(path, metadata)), mode="w")

    return PyFileSystem(Handler(uri, dict(options)))


class _Stream:
    """A file to write to."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def closed(self) -> bool:
        return bool(self._inner.closed)

    def write(self, data: Any) -> int:
        self._inner.write(bytes(data))
        return len(data)

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
