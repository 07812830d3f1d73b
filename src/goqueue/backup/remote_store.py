"""A store at a URL that fsspec knows: s3://, gs://, az:// and others, with the package that brings the scheme.

An object store takes an object whole or not at all. Where a scheme does not (sftp), a part that a killed backup left
has another size than its object should have, so the next backup writes it again. There is no lock: two backups at once
do the same work twice and harm nothing, because objects are named by their content.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goqueue.backup.addresses import open_files
from goqueue.backup.store import Store
from goqueue.backup.whole import EndedEarly

_COPY_BYTES = 4 * 1024 * 1024


class RemoteStore(Store):
    """Backups at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root = open_files(url)

    def __str__(self) -> str:
        return self.url

    def names(self) -> list[str]:
        """The backups, oldest first."""
        # Listings may be cached; another machine may have written since.
        self._files.invalidate_cache()
        return sorted(Path(found).stem for found in self._files.glob(f"{self._root}/backups/*.json"))

    def read_manifest(self, name: str) -> bytes:
        """A manifest as it is stored."""
        content: bytes = self._files.cat_file(self._manifest(name))
        return content

    def write_manifest(self, name: str, content: bytes) -> None:
        """Store a manifest."""
        self._files.makedirs(f"{self._root}/backups", exist_ok=True)
        self._files.pipe_file(self._manifest(name), content)

    def size_of(self, hash_: str) -> int | None:
        """The size of an object as it is stored; None if it is not there."""
        try:
            return int(self._files.info(self._object(hash_))["size"])
        except FileNotFoundError:
            return None

    def put_object(self, hash_: str, source: Path, size: int, start: int = 0) -> None:
        """Send `size` bytes of a file, from `start` on; in several parts if there are many."""
        self._make_folder(hash_)
        with source.open("rb") as reader, self._files.open(self._object(hash_), "wb") as writer:
            reader.seek(start)
            left = size
            while left:
                content = reader.read(min(left, _COPY_BYTES))
                if not content:
                    raise EndedEarly(f"{source} ended at byte {start + size - left} instead of {start + size}")
                writer.write(content)
                left -= len(content)

    def put_bytes(self, hash_: str, content: bytes) -> None:
        """Store a small object."""
        self._make_folder(hash_)
        self._files.pipe_file(self._object(hash_), content)

    @contextmanager
    def local_object(self, hash_: str) -> Iterator[Path]:
        """A copy that only we can read, removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="goqueue-backup-") as folder:
            fetched = Path(folder) / hash_
            path = self._object(hash_)
            size = self._files.info(path)["size"]
            with fetched.open("wb") as writer:
                # By ranges: some file systems give all readers of a file one position to share.
                for first in range(0, size, _COPY_BYTES):
                    writer.write(self._files.cat_file(path, start=first, end=min(first + _COPY_BYTES, size)))
            yield fetched

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nothing to hold, see above."""
        yield

    def _manifest(self, name: str) -> str:
        return f"{self._root}/backups/{name}.json"

    def _object(self, hash_: str) -> str:
        return f"{self._root}/objects/{hash_[:2]}/{hash_}"

    def _make_folder(self, hash_: str) -> None:
        self._files.makedirs(f"{self._root}/objects/{hash_[:2]}", exist_ok=True)
