"""TcpNetwork: the network between nodes over TCP, on a listener of its own, plain or with TLS.

Nobody is talked to before the handshake: until then messages are small and few, few connections may be open, and each
has a few seconds. Where a node is, the metadata says, and it is asked anew for every connection: addresses change.
Every connection uses the TLS context of the moment in which it is made, so that changed certificates and removed
authorities take effect without a restart.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from goqueue.clock import Rng
from goqueue.cluster.network import Accept
from goqueue.cluster.tcp import handshake
from goqueue.cluster.tcp.certificates import PeerTls, certificate_refusal
from goqueue.cluster.tcp.door import PeerDoor, first_byte
from goqueue.cluster.tcp.messages import TcpMessages
from goqueue.errors import PeerRefused, PeerUnreachable

MESSAGE_BYTES_MAX = 256 * 1024 * 1024
# Before the handshake is done.
_GREETING_BYTES_MAX = 1024
_CONNECT_SECONDS = 3.0
HANDSHAKE_SECONDS = 5.0
# A peer whose machine is gone sends no reset: the kernel finds out.
_UNSENT_MS_MAX = 10_000
# While nothing is sent, it asks whether the other side is there: after so long, so often, so many times.
_IDLE_SECONDS, _ASK_SECONDS, _ASKED_MAX = 10, 3, 3
# The first byte of a TLS connection. A plain one begins with the length of a short message, whose first byte is 0.
_TLS_HANDSHAKE = 0x16


class PeerAddress(NamedTuple):
    """Where a node takes connections of its peers."""

    host: str
    port: int


class TcpNetwork:
    """A `PeerNetwork`. The first of the secrets is the current one; the second is the one before or after it."""

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        secrets: Sequence[bytes],
        address_of: Callable[[int], PeerAddress | None],
        sock: socket.socket | None,
        rng: Rng,
        tls: PeerTls | None = None,
    ) -> None:
        """`sock` is bound already, so that its port is known before the node is registered. Without `tls`, plain."""
        if not secrets or not all(secrets):
            raise ValueError("the network between nodes needs a secret")
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._secrets = tuple(secrets)
        self._address_of = address_of
        self._socket = sock
        self._rng = rng
        self._tls = tls
        self._door: PeerDoor | None = None
        self._open: set[TcpMessages] = set()
        self._closed = False

    async def connect(self, node_id: int, purpose: int) -> TcpMessages:
        """See `PeerNetwork.connect`."""
        address = self._address_of(node_id)
        if address is None or self._closed:
            raise PeerUnreachable(node_id, "its address is not known" if address is None else "this node is stopping")
        messages = await self._connected(node_id, address)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._introduce(messages, node_id, purpose)
        except TimeoutError:
            messages.close()
            raise PeerUnreachable(node_id, f"no answer from {address.host}:{address.port}") from None
        except BaseException:
            messages.close()
            raise
        self._welcome(messages, node_id)
        return messages

    async def listen(self, accept: Accept) -> None:
        """See `PeerNetwork.listen`."""
        if self._socket is None:
            raise ValueError("this network was given no socket to listen on")
        self._door = PeerDoor(self._socket, lambda sock, authenticated: self._serve(sock, authenticated, accept))
        self._door.open()

    def drop_connections(self) -> None:
        """Close every connection. Both sides connect again, and show certificates that are checked anew."""
        for messages in list(self._open):
            messages.close()

    async def close(self) -> None:
        """See `PeerNetwork.close`."""
        self._closed = True
        self.drop_connections()
        if self._door is not None:
            await self._door.close()
        elif self._socket is not None:
            self._socket.close()

    # --- the connecting side --------------------------------------------------------------

    async def _connected(self, peer: int, address: PeerAddress) -> TcpMessages:
        tls = self._tls
        if tls is None:
            return await self._connected_by(peer, address, None)
        try:
            return await self._connected_by(peer, address, tls.connecting())
        except ssl.SSLCertVerificationError as error:
            raise PeerRefused(peer, f"its certificate is refused: {error.verify_message}") from error
        except (ssl.SSLError, ConnectionError) as error:
            if tls.is_required or isinstance(error, ConnectionRefusedError):
                reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
                raise PeerUnreachable(peer, f"{address.host}:{address.port}: no TLS connection: {reason}") from error
        # It does not speak TLS yet: the cluster is being switched over.
        return await self._connected_by(peer, address, None)

    async def _connected_by(self, peer: int, address: PeerAddress, context: ssl.SSLContext | None) -> TcpMessages:
        messages = TcpMessages(_GREETING_BYTES_MAX)
        host = None if context is None else address.host
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    lambda: messages, *address, ssl=context, server_hostname=host
                )
        except TimeoutError:
            messages.close()
            raise PeerUnreachable(peer, f"no answer from {address.host}:{address.port}") from None
        except OSError as error:
            messages.close()
            if isinstance(error, ssl.SSLError | ConnectionError) and context is not None:
                raise
            raise PeerUnreachable(peer, f"{address.host}:{address.port}: {error}") from error
        except BaseException:
            messages.close()
            raise
        _watch_over(transport)
        return messages

    async def _introduce(self, messages: TcpMessages, peer: int, purpose: int) -> None:
        refusal = certificate_refusal(messages.certificate, peer)
        if refusal:
            raise PeerRefused(peer, refusal)
        hello = handshake.encode(
            handshake.Hello(handshake.VERSION, purpose, self._cluster_id, self._node_id, peer, self._nonce())
        )
        await messages.send(hello)
        try:
            challenge = await self._answer(messages, peer)
            said = handshake.decode_challenge(challenge)
            if said.refusal:
                raise PeerRefused(peer, said.refusal)
            if len(said.nonce) != handshake.NONCE_BYTES:
                raise PeerRefused(peer, "its nonce has a wrong size")
            await messages.send(handshake.encode(handshake.client_proofs(self._secrets, hello, challenge)))
            proof = handshake.decode_proof(await self._answer(messages, peer))
        except handshake.MALFORMED as error:
            raise PeerRefused(peer, f"it does not speak the peer protocol: {error}") from None
        handshake.check_server(self._secrets, hello, challenge, proof, peer=peer)

    async def _answer(self, messages: TcpMessages, peer: int) -> bytes:
        answer = await messages.receive()
        if answer is None:
            # With TLS 1.3 this is how a refused certificate is told: the handshake was over for this side.
            reason = f": {messages.failure}" if messages.failure else ""
            raise PeerUnreachable(peer, f"it closed the connection during the handshake{reason}")
        return bytes(answer)

    # --- the accepting side ---------------------------------------------------------------

    async def _serve(self, sock: socket.socket, authenticated: Callable[[], None], accept: Accept) -> None:
        messages = TcpMessages(_GREETING_BYTES_MAX)
        hello = None
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._opened(sock, messages)
                hello = await self._examine(messages)
        except (TimeoutError, PeerUnreachable, OSError):
            pass
        except BaseException:
            messages.close()
            raise
        if hello is None or self._closed:
            messages.close()
            return
        authenticated()
        self._welcome(messages, hello.node_id)
        try:
            await accept(messages, hello.purpose)
        finally:
            messages.close()
            self._open.discard(messages)

    async def _opened(self, sock: socket.socket, messages: TcpMessages) -> None:
        """The connection, with TLS if this node requires it or the other side begins with it. Raises OSError."""
        tls = self._tls
        context = None
        try:
            # Not more: a follower that is frozen takes nothing for a while, and its connection may outlast that.
            _keep_alive(sock)
            if tls is not None and (tls.is_required or await first_byte(sock) == _TLS_HANDSHAKE):
                context = tls.accepting()
            await asyncio.get_running_loop().connect_accepted_socket(lambda: messages, sock, ssl=context)
        except BaseException as error:
            with suppress(OSError):
                sock.close()
            if isinstance(error, ssl.SSLError):
                self._tell(f"the TLS handshake of a connection to the port for other nodes failed: {error.reason}")
            raise

    async def _examine(self, messages: TcpMessages) -> handshake.Hello | None:
        """Who it is, proved; None if nobody we talk to."""
        first = await messages.receive()
        if first is None:
            return None
        hello_bytes = bytes(first)
        try:
            hello = handshake.decode_hello(hello_bytes)
        except handshake.MALFORMED:
            return None
        refusal = handshake.refusal_of(hello, node_id=self._node_id, cluster_id=self._cluster_id)
        refusal = refusal or certificate_refusal(messages.certificate, hello.node_id)
        challenge = handshake.encode(handshake.Challenge(handshake.VERSION, self._nonce(), refusal))
        await messages.send(challenge)
        if refusal:
            self._tell(f"a connection of node {hello.node_id} was refused: {refusal}")
            return None
        answer = await messages.receive()
        if answer is None:
            return None
        try:
            proofs = handshake.decode_proofs(answer)
        except handshake.MALFORMED:
            return None
        secret = handshake.check_client(self._secrets, hello_bytes, challenge, proofs)
        if secret is None:
            self._tell(f"a connection of node {hello.node_id} was refused: it does not know the cluster's secret")
            reason = "the secret is not this cluster's: check cluster.secret on both nodes"
            await messages.send(handshake.encode(handshake.Proof(b"", reason)))
            return None
        # From here on the peer may send long messages, and its first one may follow on the proof.
        messages.admit(MESSAGE_BYTES_MAX)
        await messages.send(handshake.encode(handshake.server_proof(secret, hello_bytes, challenge)))
        return hello

    def _tell(self, text: str) -> None:
        """Log what a stranger did: not for every one of many connections."""
        if self._door is not None:
            self._door.tell(text)

    # --- both -----------------------------------------------------------------------------

    def _welcome(self, messages: TcpMessages, peer: int) -> None:
        messages.peer = peer
        messages.admit(MESSAGE_BYTES_MAX)
        self._open = {one for one in self._open if not one.is_closed}
        self._open.add(messages)

    def _nonce(self) -> bytes:
        return self._rng.getrandbits(handshake.NONCE_BYTES * 8).to_bytes(handshake.NONCE_BYTES, "big")


def _watch_over(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNSENT_MS_MAX)
        _keep_alive(sock)


def _keep_alive(sock: socket.socket) -> None:
    """Let the kernel find out that the machine of the other side is gone, although nothing is sent."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASK_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _ASKED_MAX)
