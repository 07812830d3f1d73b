"""A real etcd that asks for certificates and passwords: who gets in, and what happens when they are exchanged."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.etcd_server import EtcdServer, require_etcd, require_etcdctl

from goqueue.config import MetadataConfig
from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.kv import KvError, KvUnavailable, Put
from goqueue.node.cluster.etcd import credentials_of
from goqueue.security import certificates


class SecuredEtcd:
    """One etcd with TLS, client certificates and users; `broker` may use the keys under /goqueue."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.authority = certificates.new_authority("etcd")
        certificates.write(self.authority, home / "ca.pem", home / "ca.key")
        self.issue("server")
        self.issue("client")
        (home / "password").write_text("first password\n")
        tls = [f"--cert-file={home}/server.pem", f"--key-file={home}/server.key"]
        tls += ["--bcrypt-cost=4", f"--trusted-ca-file={home}/ca.pem", "--client-cert-auth"]
        self.server = EtcdServer(home / "etcd", options=tls, scheme="https").start()
        self.ctl("user", "add", "root:root password")
        self.ctl("user", "grant-role", "root", "root", tolerated=True)
        self.ctl("role", "add", "goqueue")
        self.ctl("role", "grant-permission", "goqueue", "readwrite", "/goqueue/", "--prefix=true")
        self.ctl("user", "add", "broker:first password")
        self.ctl("user", "grant-role", "broker", "goqueue")
        self.ctl("auth", "enable")

    def issue(self, name: str, authority: certificates.Pair | None = None) -> None:
        made = certificates.new_certificate(authority or self.authority, name, ["127.0.0.1"])
        certificates.write(made, self.home / f"{name}.pem", self.home / f"{name}.key")

    def ctl(self, *words: str, user: Sequence[str] = (), tolerated: bool = False) -> None:
        require_etcdctl()
        tls = [f"--cacert={self.home}/ca.pem", f"--cert={self.home}/client.pem", f"--key={self.home}/client.key"]
        command = ["etcdctl", f"--endpoints={self.server.url}", *tls, *user, *words]
        environment = {"ETCDCTL_API": "3", "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert tolerated or done.returncode == 0, done.stderr

    def change_password(self, text: str) -> None:
        user = ["--user", "root:root password"]
        self.ctl("user", "delete", "broker", user=user)
        self.ctl("user", "add", f"broker:{text}", user=user)
        self.ctl("user", "grant-role", "broker", "goqueue", user=user)

    def settings(self) -> MetadataConfig:
        return MetadataConfig(
            mode="external",
            endpoints=(self.server.url,),
            username="broker",
            password_file=str(self.home / "password"),
            tls_ca=str(self.home / "ca.pem"),
            tls_certificate=str(self.home / "client.pem"),
            tls_key=str(self.home / "client.key"),
        )

    def kv(self) -> EtcdKv:
        return EtcdKv(Connection([self.server.url], lambda: credentials_of(self.settings())))


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[SecuredEtcd]:
    require_etcd()
    etcd = SecuredEtcd(tmp_path / "secured")
    yield etcd
    etcd.server.stop()


async def written(kv: EtcdKv, key: str, value: bytes) -> bool:
    """Write, again if an attempt found old credentials or an etcd that is still starting."""
    async with asyncio.timeout(20):
        while True:
            try:
                return (await kv.txn([], [Put(key, value)])).succeeded
            except KvError:
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_broker_with_certificate_and_password_reads_writes_watches_and_keeps_a_lease(etcd: SecuredEtcd) -> None:
    kv = etcd.kv()
    try:
        assert await written(kv, "/goqueue/a", b"1")
        found = await kv.get("/goqueue/a")
        assert found is not None
        assert found.value == b"1"
        watch = kv.watch("/goqueue/", 1)
        assert (await anext(watch)).written[0].value == b"1"
        lease = await kv.grant(5_000)
        await kv.keep_alive(lease)
        await kv.revoke(lease)
        with pytest.raises(KvUnavailable, match="permission denied"):
            await kv.get("/elsewhere")
        # Another password: the file is read again when the old one is refused.
        etcd.change_password("second password")
        (etcd.home / "password").write_text("second password\n")
        assert await written(kv, "/goqueue/a", b"2")
        # Other certificates on both sides: etcd reads its own by itself, and a restart ends every connection.
        etcd.issue("server")
        etcd.issue("client")
        etcd.server.stop()
        etcd.server.start()
        assert await written(kv, "/goqueue/a", b"3")
        await watch.aclose()
    finally:
        await kv.close()


@pytest.mark.slow
async def test_a_stranger_gets_nothing_of_an_etcd_with_certificates(etcd: SecuredEtcd) -> None:
    etcd.issue("client", certificates.new_authority("a stranger"))
    kv = etcd.kv()
    try:
        with pytest.raises(KvError):
            await kv.get("/goqueue/a")
    finally:
        await kv.close()
