"""TLS between nodes: who is let in by a certificate, how nodes switch from plain to TLS, what strangers may do."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom

import pytest

from goqueue.cluster.network import CALLS, PeerConnection
from goqueue.cluster.tcp import door, handshake
from goqueue.cluster.tcp.certificates import certificate_refusal
from goqueue.cluster.tcp.network import PeerAddress, TcpNetwork
from goqueue.config import TlsConfig
from goqueue.errors import PeerRefused, PeerUnreachable
from goqueue.node.cluster.peer_tls import PeerCertificates
from goqueue.node.system_clock import SystemClock
from goqueue.security import certificates
from goqueue.security.certificates import Pair

SECRET = b"a secret of the cluster"


class Place:
    """A folder with certificates of nodes that know each other's addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates.new_authority("cluster")
        self.addresses: dict[int, PeerAddress] = {}
        self.networks: list[TcpNetwork] = []

    def tls(
        self, node_id: int, *, required: bool = True, authority: Pair | None = None, says: int | None = None
    ) -> PeerCertificates:
        """The certificate of a node, by this authority, that says it is that of node `says`."""
        signer = authority or self.authority
        made = certificates.new_certificate(signer, f"node{node_id}", ["127.0.0.1"], node_id=says or node_id)
        certificates.write(made, self.folder / f"{node_id}.pem", self.folder / f"{node_id}.key")
        certificates.write(self.authority, self.folder / f"{node_id}-ca.pem", self.folder / "ca.key")
        return PeerCertificates(self.files(node_id), is_required=required, clock=SystemClock())

    def files(self, node_id: int) -> TlsConfig:
        names = (f"{node_id}.pem", f"{node_id}.key", f"{node_id}-ca.pem")
        return TlsConfig(*(str(self.folder / name) for name in names), reload_ms=100)

    def join(self, node_id: int, tls: PeerCertificates | None, *, rng: SystemRandom | None = None) -> TcpNetwork:
        sock = socket.create_server(("127.0.0.1", 0))
        self.addresses.setdefault(node_id, PeerAddress("127.0.0.1", sock.getsockname()[1]))
        network = TcpNetwork(
            node_id=node_id,
            cluster_id="c",
            secrets=(SECRET,),
            address_of=self.addresses.get,
            sock=sock,
            rng=rng or SystemRandom(),
            tls=tls,
        )
        self.networks.append(network)
        return network


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    made = Place(folder)
    try:
        yield made
    finally:
        for network in made.networks:
            await network.close()


async def echo(connection: PeerConnection, _purpose: int) -> None:
    while (message := await connection.receive()) is not None:
        await connection.send([f"{connection.peer} ".encode(), message])


async def said_back(connection: PeerConnection, message: bytes) -> bytes:
    await connection.send([message[:3], message[3:]])
    return bytes(await asyncio.wait_for(connection.receive(), 10) or b"")


async def test_messages_of_every_size_pass_through_tls(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        one, two = nodes.join(1, nodes.tls(1)), nodes.join(2, nodes.tls(2))
        await two.listen(echo)
        connection = await one.connect(2, CALLS)
        assert connection.certificate is not None
        for message in (b"", b"x", b"y" * 65_530, b"z" * 65_540, b"w" * 3_000_000, b"v"):
            assert await said_back(connection, message) == b"1 " + message


async def test_a_plain_connection_and_an_unknown_certificate_are_refused_where_tls_is_required(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        two = nodes.join(2, nodes.tls(2))
        await two.listen(echo)
        with pytest.raises(PeerUnreachable, match="closed the connection during the handshake"):
            await nodes.join(1, None).connect(2, CALLS)
        stranger = nodes.join(3, nodes.tls(3, authority=certificates.new_authority("a stranger")))
        with pytest.raises(PeerUnreachable, match="during the handshake"):
            await stranger.connect(2, CALLS)
        # The other way round: who connects does not trust a stranger's listener.
        await stranger.listen(echo)
        with pytest.raises(PeerRefused, match="its certificate is refused"):
            await two.connect(3, CALLS)


async def test_a_node_with_the_secret_and_the_certificate_of_another_node_is_refused(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        two, impostor = nodes.join(2, nodes.tls(2)), nodes.join(3, nodes.tls(3, says=1))
        await two.listen(echo)
        await impostor.listen(echo)
        with pytest.raises(PeerRefused, match="the certificate is that of node 1, not of node 3"):
            await impostor.connect(2, CALLS)
        with pytest.raises(PeerRefused, match="the certificate is that of node 1, not of node 3"):
            await two.connect(3, CALLS)


def test_a_certificate_that_names_no_node_speaks_for_every_node() -> None:
    assert certificate_refusal(None, 2) == ""
    assert certificate_refusal({"subjectAltName": (("DNS", "broker2.example"),)}, 2) == ""
    assert certificate_refusal({"subjectAltName": (("URI", "goqueue:node:2"),)}, 2) == ""
    assert "that of node 22" in certificate_refusal({"subjectAltName": (("URI", "goqueue:node:22"),)}, 2)


async def test_nodes_talk_in_every_step_of_a_switch_from_plain_to_tls(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        plain = nodes.join(1, None)
        both = nodes.join(2, nodes.tls(2, required=False))
        strict = nodes.join(3, nodes.tls(3))
        for network in (plain, both, strict):
            await network.listen(echo)
        for connecting, peer, is_tls in ((plain, 2, False), (both, 1, False), (both, 3, True), (strict, 2, True)):
            connection = await connecting.connect(peer, CALLS)
            assert (connection.certificate is not None) is is_tls
            assert (await said_back(connection, b"hello")).endswith(b" hello")


async def test_a_certificate_is_exchanged_and_an_authority_removed_while_nodes_run(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        tls = nodes.tls(2)
        one, two = nodes.join(1, nodes.tls(1)), nodes.join(2, tls)
        tls.on_authority_removed(two.drop_connections)
        await two.listen(echo)
        old = await one.connect(2, CALLS)
        nodes.tls(2)
        assert tls.reload()
        new = await one.connect(2, CALLS)
        assert new.certificate is not None
        assert old.certificate is not None
        assert new.certificate["serialNumber"] != old.certificate["serialNumber"]
        assert await said_back(old, b"still open") == b"1 still open"
        # Node 2 trusts another authority from now on: what was let in by the old one is closed, and does not come back.
        other = certificates.new_authority("another")
        certificates.write(other, tmp_path / "2-ca.pem", tmp_path / "other.key")
        assert tls.reload()
        assert await asyncio.wait_for(new.receive(), 10) is None
        with pytest.raises(PeerUnreachable):
            await one.connect(2, CALLS)


# --- strangers ----------------------------------------------------------------------------


async def test_strangers_are_few_and_do_not_keep_a_node_out_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "STRANGERS_PER_ADDRESS_MAX", 5)
    monkeypatch.setattr("goqueue.cluster.tcp.network.HANDSHAKE_SECONDS", 0.3)
    async with place(tmp_path) as nodes:
        one, two = nodes.join(1, None), nodes.join(2, nodes.tls(2, required=False))
        await two.listen(echo)
        silent = [await asyncio.open_connection(*nodes.addresses[2]) for _ in range(12)]
        # Those beyond the bound are closed at once, the others when their time is up.
        for reader, _ in silent:
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
        assert two._door is not None
        assert two._door.strangers == 0
        assert await said_back(await one.connect(2, CALLS), b"in") == b"1 in"
        assert two._door.strangers == 0
        for _, writer in silent:
            writer.close()


async def test_many_empty_messages_before_the_handshake_close_the_connection(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        two = nodes.join(2, None)
        await two.listen(echo)
        reader, writer = await asyncio.open_connection(*nodes.addresses[2])
        writer.write(bytes(4) * 100_000)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_a_recorded_handshake_is_worth_nothing(tmp_path: Path) -> None:
    """The bytes of a whole handshake, sent again: the proof covers a nonce that was never repeated."""
    async with place(tmp_path) as nodes:
        two = nodes.join(2, None)
        await two.listen(echo)
        hello = handshake.encode(handshake.Hello(handshake.VERSION, CALLS, "c", 1, 2, bytes(32)))

        async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
            reader, writer = await asyncio.open_connection(*nodes.addresses[2])
            writer.write(len(hello).to_bytes(4, "big") + hello)
            size = int.from_bytes(await reader.readexactly(4), "big")
            return reader, writer, await reader.readexactly(size)

        reader, writer, challenge = await opened()
        proofs = handshake.encode(handshake.client_proofs((SECRET,), hello, challenge))
        recorded = len(proofs).to_bytes(4, "big") + proofs
        writer.write(recorded)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert handshake.decode_proof(answer).proof
        writer.close()
        again, writer, second = await opened()
        assert second != challenge
        writer.write(recorded)
        refused = handshake.decode_proof(await again.readexactly(int.from_bytes(await again.readexactly(4), "big")))
        assert "secret is not this cluster's" in refused.refusal
        assert await again.read() == b""
        writer.close()


class Said:
    """The other side of a handshake, which says what it is given: a `TcpMessages` without a connection."""

    certificate = None

    def __init__(self, first: bytes, second: bytes) -> None:
        self._says = [first, second]
        self.is_admitted = False

    async def receive(self) -> bytes | None:
        return self._says.pop(0) if self._says else None

    async def send(self, _message: object) -> None:
        pass

    def admit(self, _message_bytes_max: int) -> None:
        self.is_admitted = True


async def test_no_mutation_of_a_handshake_gets_in_or_breaks_anything(tmp_path: Path) -> None:
    rng = Random(22)
    async with place(tmp_path) as nodes:
        two = nodes.join(2, None)
        hello = handshake.encode(handshake.Hello(handshake.VERSION, CALLS, "c", 1, 2, bytes(32)))
        proofs = handshake.encode(handshake.client_proofs((SECRET,), hello, b"another challenge"))
        for _ in range(3_000):
            said = Said(_mutated(hello, rng), _mutated(proofs, rng))
            assert await two._examine(said) is None  # type: ignore[arg-type]
            assert not said.is_admitted


def _mutated(message: bytes, rng: Random) -> bytes:
    changed = bytearray(message)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at:]
            case _:
                changed[at:at] = rng.randbytes(rng.randrange(8))
        if not changed:
            break
    return bytes(changed)


async def test_old_versions_of_tls_are_refused(tmp_path: Path) -> None:
    async with place(tmp_path) as nodes:
        two = nodes.join(2, nodes.tls(2))
        await two.listen(echo)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(*nodes.addresses[2], ssl=context)
