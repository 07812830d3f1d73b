"""Where backups lie: a folder of this machine, or a URL that fsspec knows (see `remote_store.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from goqueue.backup.manifest import BackupNotFound, Manifest, decode_manifest, encode_manifest
from goqueue.backup.whole import copy_durably, make_private_folder, only_one, sweep_fresh, write_durably


class Store(ABC):
    """Manifests by name, and objects by hash."""

    def read(self, name: str | None = None) -> Manifest:
        """A backup by its name; the newest unless named."""
        names = self.names()
        if not names or (name is not None and name not in names):
            told = f"there are {', '.join(names)}" if names else f"there is no backup in {self}"
            raise BackupNotFound(f"no backup {name!r}: {told}" if name else told)
        chosen = name or names[-1]
        return decode_manifest(chosen, self.read_manifest(chosen))

    def write(self, manifest: Manifest) -> None:
        """Make the backup one: from now on it is listed."""
        self.write_manifest(manifest.name, encode_manifest(manifest))

    def near_path(self, hash_: str) -> Path | None:  # noqa: ARG002
        """Where an object lies on a disk of this machine, if it does."""
        return None

    @abstractmethod
    def names(self) -> list[str]:
        """The backups, oldest first."""

    @abstractmethod
    def read_manifest(self, name: str) -> bytes:
        """A manifest as it is stored."""

    @abstractmethod
    def write_manifest(self, name: str, content: bytes) -> None:
        """Store a manifest, whole or not at all."""

    @abstractmethod
    def has_object(self, hash_: str, size: int) -> bool:
        """Whether an object is there with all of its bytes."""

    @abstractmethod
    def put_object(self, hash_: str, source: Path, size: int) -> None:
        """Store the first bytes of a file."""

    @abstractmethod
    def put_bytes(self, hash_: str, content: bytes) -> None:
        """Store a small object."""

    @abstractmethod
    def local_object(self, hash_: str) -> AbstractContextManager[Path]:
        """An object as a file of this machine, for as long as it is needed; raises FileNotFoundError."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Around everything that writes."""


class BackupStore(Store):
    """A folder. Objects are written under another name, synced and renamed, so each is there whole or not at all."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __str__(self) -> str:
        return str(self.target)

    def object_path(self, hash_: str) -> Path:
        """Where the bytes with this hash lie."""
        return self.target / "objects" / hash_[:2] / hash_

    def near_path(self, hash_: str) -> Path | None:
        """The same: it is on a disk of this machine."""
        return self.object_path(hash_)

    def names(self) -> list[str]:
        """The backups, oldest first."""
        return sorted(path.stem for path in (self.target / "backups").glob("*.json"))

    def read_manifest(self, name: str) -> bytes:
        """A manifest as it is stored."""
        return self._manifest_path(name).read_bytes()

    def write_manifest(self, name: str, content: bytes) -> None:
        """Store a manifest, whole or not at all."""
        make_private_folder(self._manifest_path(name).parent)
        write_durably(self._manifest_path(name), content)

    def has_object(self, hash_: str, size: int) -> bool:
        """Whether an object is there with all of its bytes."""
        path = self.object_path(hash_)
        return path.exists() and path.stat().st_size == size

    def put_object(self, hash_: str, source: Path, size: int) -> None:
        """Copy the first bytes of a file."""
        make_private_folder(self.object_path(hash_).parent)
        copy_durably(source, self.object_path(hash_), size)

    def put_bytes(self, hash_: str, content: bytes) -> None:
        """Store a small object."""
        make_private_folder(self.object_path(hash_).parent)
        write_durably(self.object_path(hash_), content)

    @contextmanager
    def local_object(self, hash_: str) -> Iterator[Path]:
        """The file itself."""
        yield self.object_path(hash_)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder against other backups, and sweep what killed ones left."""
        with only_one(self.target, "backup"):
            sweep_fresh(self.target)
            yield

    def _manifest_path(self, name: str) -> Path:
        return self.target / "backups" / f"{name}.json"


def open_store(target: str | Path) -> Store:
    """The store at a folder's path or a URL; raises `InvalidRequest` for a URL that nothing here can open."""
    if "://" not in str(target):
        return BackupStore(Path(target))
    from goqueue.backup.remote_store import RemoteStore

    return RemoteStore(str(target))
