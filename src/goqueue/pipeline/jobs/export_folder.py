"""Where an export lies: a folder of this machine that appears whole, or a prefix of a store.

A store cannot rename. There the files lie in their places as they are written, a note of each finished task lies below
`_exporting/`, and `_manifest.json` comes last: an export without it is not complete. Run again, it keeps what finished
tasks have written, and removes files of tasks that did not finish. The prefix must have been empty at first, so that
everything below it belongs to this export.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.backup.addresses import open_files
from goqueue.backup.whole import appearing, refuse_filled
from goqueue.errors import InvalidRequest
from goqueue.pipeline.paths import is_store, store_path

MANIFEST = "_manifest.json"
_NOTES = "_exporting"
_DICTIONARY_COLUMNS = ["topic", "partition", "priority"]

Files = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """A place to write Parquet files to; tasks take a copy."""

    at: str

    @property
    def is_store(self) -> bool:
        """Whether it lies in a store."""
        return is_store(self.at)

    def begun(self, path: str) -> str:
        """Where a file lies until it is whole: Spark may run a task twice at once. In a store it appears whole."""
        folder, _, name = path.rpartition("/")
        return path if self.is_store else f"{folder}/.{name}.{uuid.uuid4().hex}"

    def put(self, begun: str, path: str) -> None:
        """The file is whole."""
        if not self.is_store:
            (Path(self.at) / begun).replace(Path(self.at) / path)

    def open_writer(self, path: str, schema: pa.Schema) -> pq.ParquetWriter:
        """A Parquet file to write."""
        options: dict[str, Any] = {"compression": "zstd", "use_dictionary": _DICTIONARY_COLUMNS}
        if self.is_store:
            files, root = open_files(self.at)
            return pq.ParquetWriter(f"{root}/{path}", schema, filesystem=files, **options)
        file = Path(self.at) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return pq.ParquetWriter(file, schema, **options)

    def size_of(self, path: str) -> int:
        """The size of a file that was written."""
        if self.is_store:
            files, root = open_files(self.at)
            return int(files.info(f"{root}/{path}")["size"])
        return (Path(self.at) / path).stat().st_size

    def finished(self, task: str) -> Files | None:
        """What a task of an earlier run has written; None if it did not finish."""
        if not self.is_store:
            return None
        files, root = open_files(self.at)
        with contextlib.suppress(FileNotFoundError):
            found: Files = json.loads(files.cat_file(f"{root}/{_NOTES}/{_digest(task)}.json"))
            return found
        return None

    def finish(self, task: str, written: Files) -> None:
        """Note what a task has written; in a folder of this machine only the whole counts."""
        if self.is_store:
            files, root = open_files(self.at)
            files.pipe_file(f"{root}/{_NOTES}/{_digest(task)}.json", json.dumps(written).encode())


def check_folder(to: str | Path) -> ExportFolder:
    """The place of an export; raises if nothing here can open it, or if something else lies there."""
    folder = ExportFolder(store_path(to, "to"))
    if not folder.is_store:
        refuse_filled(Path(folder.at), "to", "export to a new folder")
        return folder
    files, root = open_files(folder.at)
    files.invalidate_cache()
    if files.exists(f"{root}/{MANIFEST}"):
        raise InvalidRequest(f"{folder.at} holds an export that is complete", field="to", hint="export to a new folder")
    found = _names(files, root)
    if found and not any(name.startswith(f"{_NOTES}/") for name in found):
        raise InvalidRequest(f"{folder.at} is not empty: {found[0]}", field="to", hint="export to a new folder")
    return folder


@contextmanager
def filling(folder: ExportFolder) -> Iterator[ExportFolder]:
    """The place to fill: in a store the place itself, marked as ours; else a folder that appears once all is in it."""
    if folder.is_store:
        files, root = open_files(folder.at)
        files.pipe_file(f"{root}/{_NOTES}/begun", b"")
        yield folder
        return
    with appearing(Path(folder.at), "exporting") as fresh:
        yield ExportFolder(str(fresh))


def sweep(folder: ExportFolder, written: Files) -> int:
    """Remove what earlier runs and killed tasks left, and this run did not write; returns the number of files."""
    if not folder.is_store:
        left_here = [one for one in Path(folder.at).rglob(".*.parquet.*") if one.is_file()]
        for one in left_here:
            one.unlink(missing_ok=True)
        return len(left_here)
    files, root = open_files(folder.at)
    files.invalidate_cache()
    kept = {file["path"] for file in written}
    left = [name for name in _names(files, root) if name not in kept and not name.startswith(f"{_NOTES}/")]
    for name in left:
        files.rm_file(f"{root}/{name}")
    return len(left)


def complete(folder: ExportFolder, written: Files) -> None:
    """Write the manifest, by which the export counts."""
    content = json.dumps(written, indent=2).encode()
    if not folder.is_store:
        (Path(folder.at) / MANIFEST).write_bytes(content)
        return
    files, root = open_files(folder.at)
    files.pipe_file(f"{root}/{MANIFEST}", content)
    files.rm(f"{root}/{_NOTES}", recursive=True)


def _names(files: Any, root: str) -> Sequence[str]:
    return sorted(str(found).removeprefix(f"{root}/") for found in files.find(root))


def _digest(task: str) -> str:
    return hashlib.blake2s(task.encode(), digest_size=16).hexdigest()
