"""Encrypted backups: written with a public key, read with the private one, and never with another."""

from __future__ import annotations

from pathlib import Path

import pytest

pyrage = pytest.importorskip("pyrage", reason="needs goqueue[encryption]")

from tests.unit.backup.test_files import frame, segment  # noqa: E402
from tests.unit.backup.test_work import RUN, contents, write  # noqa: E402

from goqueue.backup.manifest import BackupUnreadable  # noqa: E402
from goqueue.backup.store import Vault  # noqa: E402
from goqueue.backup.work import backup, restore, verify  # noqa: E402
from goqueue.errors import InvalidRequest  # noqa: E402

KEY, OTHER = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
LOG = "logs/orders/0/00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    write(root / "metadata" / "00000000000000000000.log", segment(2))
    write(root / LOG, b"".join(frame(offset, b"a secret" * 20_000) for offset in range(5)))
    return root


def identity(folder: Path, key: object) -> str:
    path = folder / "key.txt"
    path.write_text(f"# created: today\n{key}\n")
    return str(path)


def take(data: Path, store: Path) -> str:
    vault = Vault(str(store), (str(KEY.to_public()), str(OTHER.to_public())))
    return str(backup(RUN, data, vault, ask_instant=lambda: None).facts["backup"])


def test_what_is_stored_cannot_be_read_and_what_is_restored_is_the_same(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    take(data, store)
    with (data / LOG).open("ab") as log:
        log.write(frame(5, b"a secret"))
    take(data, store)

    for key in (KEY, OTHER):
        vault = Vault(str(store), (), identity(tmp_path, key))
        assert verify(RUN, vault, None).problems == []
        target = tmp_path / f"restored-{key is KEY}"
        restore(RUN, vault, None, target)
        assert contents(target) == contents(data)
    stored = [path.read_bytes() for path in (store / "objects").rglob("*") if path.is_file()]
    assert stored
    assert not any(b"a secret" in content for content in stored)


def test_the_second_backup_encrypts_only_what_is_new(data: Path, tmp_path: Path) -> None:
    take(data, tmp_path / "store")
    before = contents(tmp_path / "store" / "objects")

    take(data, tmp_path / "store")

    assert contents(tmp_path / "store" / "objects") == before


def test_without_the_key_or_with_another_nothing_is_restored(data: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    name = take(data, Path(store))
    stranger = identity(tmp_path, pyrage.x25519.Identity.generate())

    with pytest.raises(InvalidRequest, match=f"backup {name} is encrypted: name the file of its private key"):
        restore(RUN, store, None, tmp_path / "restored")
    with pytest.raises(BackupUnreadable, match="cannot be decrypted with this identity"):
        restore(RUN, Vault(store, (), stranger), None, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_plain_backup_is_restored_also_if_a_key_is_named(data: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    backup(RUN, data, store, ask_instant=lambda: None)
    # An encrypted one behind it has no parent: its objects are others.
    assert backup(RUN, data, Vault(store, (str(KEY.to_public()),)), ask_instant=lambda: None).facts["parent"] is None

    first = min(path.stem for path in (tmp_path / "store" / "backups").iterdir())
    restore(RUN, Vault(store, (), identity(tmp_path, KEY)), first, tmp_path / "restored")

    assert contents(tmp_path / "restored") == contents(data)


@pytest.mark.parametrize(
    ("vault", "told"),
    [
        (Vault("s", ("age1nonsense",)), "'age1nonsense' is not a public key of age"),
        (Vault("s", (), "/nowhere/key"), "/nowhere/key: No such file or directory"),
        (Vault("s", (), "/dev/null"), "/dev/null holds no private key of age"),
    ],
)
def test_keys_that_are_none_are_refused_before_anything_runs(vault: Vault, told: str, data: Path) -> None:
    with pytest.raises(InvalidRequest, match=told):
        backup(RUN, data, vault, ask_instant=lambda: None)
