"""Encrypted backups, by the package pyrage, in the format of age (https://age-encryption.org).

Whoever takes backups needs the recipients' public keys only (`age1...`); whoever verifies or restores needs the
identity, the private key, which is kept elsewhere. Objects are encrypted before they are written; what `age -d` makes
of one is the segment. Manifests are not encrypted: they name topics, sizes, times and hashes.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.backup.manifest import BackupUnreadable
from goqueue.backup.store import Store
from goqueue.backup.whole import EndedEarly, open_private
from goqueue.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from pyrage import x25519

# age's payload: a nonce, and a tag for every chunk of 64 KiB. The header has no fixed size.
_CHUNK_BYTES, _TAG_BYTES = 65536, 16


class EncryptedStore(Store):
    """A store whose objects are encrypted; without recipients it can only be read, without identity only written."""

    def __init__(self, inner: Store, recipients: Sequence[str], identity: str | None) -> None:
        self._inner = inner
        self._recipients = _recipients(recipients)
        self._identities = [] if identity is None else _identities(Path(identity))

    def __str__(self) -> str:
        return str(self._inner)

    @property
    def encryption(self) -> str | None:
        """What a manifest says of its objects."""
        return "age"

    def names(self) -> list[str]:
        """The backups, oldest first."""
        return self._inner.names()

    def read_manifest(self, name: str) -> bytes:
        """A manifest as it is stored."""
        return self._inner.read_manifest(name)

    def write_manifest(self, name: str, content: bytes) -> None:
        """Store a manifest."""
        self._inner.write_manifest(name, content)

    def size_of(self, hash_: str) -> int | None:
        """The size of an encrypted object."""
        return self._inner.size_of(_name(hash_))

    def has_object(self, hash_: str, size: int) -> bool:
        """Whether an object is there. It is larger than what it holds; by how much depends on its header."""
        found = self.size_of(hash_)
        chunks = max(1, -(-size // _CHUNK_BYTES))
        return found is not None and found > size + _TAG_BYTES * (1 + chunks)

    def put_object(self, hash_: str, source: Path, size: int, start: int = 0) -> None:
        """Encrypt `size` bytes of a file, from `start` on, and store them."""
        with source.open("rb") as reader, tempfile.TemporaryDirectory(prefix="goqueue-backup-") as folder:
            reader.seek(start)
            limited = _Limited(reader, size)
            self._encrypt(limited, hash_, Path(folder))
            if limited.left:
                raise EndedEarly(f"{source} ended {limited.left} bytes too early")

    def put_bytes(self, hash_: str, content: bytes) -> None:
        """Encrypt and store a small object."""
        with tempfile.TemporaryDirectory(prefix="goqueue-backup-") as folder:
            self._encrypt(io.BytesIO(content), hash_, Path(folder))

    @contextmanager
    def local_object(self, hash_: str) -> Iterator[Path]:
        """A decrypted copy that only we can read, removed afterwards."""
        from pyrage import DecryptError, decrypt_io

        if not self._identities:
            raise InvalidRequest("the backup is encrypted: name the file of its private key", field="identity")
        with self._inner.local_object(_name(hash_)) as stored, tempfile.TemporaryDirectory() as folder:
            opened = Path(folder) / hash_
            with stored.open("rb") as reader, open_private(opened) as writer:
                try:
                    decrypt_io(reader, writer, self._identities)
                except DecryptError as error:
                    raise BackupUnreadable(f"object {hash_} cannot be decrypted with this identity: {error}") from None
            yield opened

    def writing(self) -> AbstractContextManager[None]:
        """Around everything that writes."""
        return self._inner.writing()

    def _encrypt(self, reader: Any, hash_: str, folder: Path) -> None:
        from pyrage import encrypt_io

        if not self._recipients:
            raise InvalidRequest("name the public keys that backups are encrypted for", field="encrypt_to")
        sealed = folder / _name(hash_)
        with open_private(sealed) as writer:
            encrypt_io(reader, writer, self._recipients)
        self._inner.put_object(_name(hash_), sealed, sealed.stat().st_size)


class _Limited(io.RawIOBase):
    """The first bytes of a file that goes on growing."""

    def __init__(self, reader: io.BufferedReader, size: int) -> None:
        self._reader, self.left = reader, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._reader.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(content)
        return content


def _name(hash_: str) -> str:
    return f"{hash_}.age"


def _recipients(keys: Sequence[str]) -> list[x25519.Recipient]:
    pyrage = _pyrage()
    found = []
    for key in keys:
        try:
            found.append(pyrage.x25519.Recipient.from_str(key.strip()))
        except pyrage.RecipientError as error:
            raise InvalidRequest(
                f"{key!r} is not a public key of age: {error}", field="encrypt_to", hint="as `age-keygen` prints it"
            ) from None
    return found


def _identities(path: Path) -> list[x25519.Identity]:
    pyrage = _pyrage()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}", field="identity") from None
    try:
        found = [pyrage.x25519.Identity.from_str(line.strip()) for line in lines if line.strip() and line[0] != "#"]
    except pyrage.IdentityError:
        # Without the text: it may be a key with a slip in it.
        found = []
    if not found:
        raise InvalidRequest(
            f"{path} holds no private key of age", field="identity", hint="the file that `age-keygen -o` writes"
        )
    return found


def _pyrage() -> Any:
    try:
        import pyrage
    except ModuleNotFoundError:
        raise ConfigError(["encrypted backups need the package pyrage: pip install 'goqueue[encryption]'"]) from None
    return pyrage
