"""Where backups lie: a folder of this machine, or an address of a store (see `addresses.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from goqueue.backup.addresses import as_written, file_path, is_store
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

    def has_object(self, hash_: str, size: int) -> bool:
        """Whether an object is there with all of its bytes."""
        return self.size_of(hash_) == size

    @property
    def encryption(self) -> str | None:
        """How objects are encrypted, as manifests name it; None if they are not."""
        return None

    @abstractmethod
    def size_of(self, hash_: str) -> int | None:
        """The size of an object as it is stored; None if it is not there."""

    @abstractmethod
    def put_object(self, hash_: str, source: Path, size: int, start: int = 0) -> None:
        """Store `size` bytes of a file, from `start` on."""

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

    def size_of(self, hash_: str) -> int | None:
        """The size of an object as it is stored; None if it is not there."""
        try:
            return self.object_path(hash_).stat().st_size
        except FileNotFoundError:
            return None

    def put_object(self, hash_: str, source: Path, size: int, start: int = 0) -> None:
        """Copy `size` bytes of a file, from `start` on."""
        make_private_folder(self.object_path(hash_).parent)
        copy_durably(source, self.object_path(hash_), size, start)

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


@dataclass(frozen=True, slots=True)
class Vault:
    """Where backups lie, and the keys of those that are encrypted: all that a task needs to open the store."""

    target: str
    # Public keys of age that objects are encrypted for.
    encrypt_to: tuple[str, ...] = ()
    # The file with the private key, on the machine that reads.
    identity: str | None = None


def open_store(target: str | Path | Vault) -> Store:
    """The store at a folder's path or an address; raises for an address that nothing here can open."""
    vault = target if isinstance(target, Vault) else Vault(as_written(target))
    store = _plain_store(vault.target)
    if not vault.encrypt_to and vault.identity is None:
        return store
    from goqueue.backup.encryption import EncryptedStore

    return EncryptedStore(store, vault.encrypt_to, vault.identity)


def _plain_store(target: str) -> Store:
    if not is_store(target):
        return BackupStore(file_path(target))
    from goqueue.backup.remote_store import RemoteStore

    return RemoteStore(target)
