"""Whether the machines of a cluster reach each other, before anything runs on them.

Each machine listens on the addresses of its nodes for a while and connects to those of the others. Whoever is asked
proves with the cluster's secret which node it is, and says what its clock shows. Where a broker or an etcd listens
already, it is enough that it takes the connection.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from goqueue.cluster.peer_watch import SKEW_MS_WARNED
from goqueue.config import Config
from goqueue.node.cluster.voter import voter_of
from goqueue.node.config.addresses import Address
from goqueue.node.config.cluster_settings import parse_url, peer_address, peers_of, read_secrets, voters_of
from goqueue.node.listeners.listening import CannotListen, bind

_HELLO = b"goqueue-check"
_ANSWER_S_MAX = 3.0
_RETRY_S = 0.3
_LINE_BYTES_MAX = 200


class Target(NamedTuple):
    """An address of another node, and the setting that names it."""

    node_id: int
    setting: str
    address: Address


def targets_of(configs: Sequence[Config]) -> list[Target]:
    """What the nodes of this machine have to reach: the nodes of other machines, and their etcd servers."""
    own = {config.broker.node_id for config in configs}
    config = configs[0]
    found = [Target(node, "cluster.peers", address) for node, address in peers_of(config).items() if node not in own]
    if config.metadata.mode == "managed":
        found += [
            Target(node, "metadata.voters", parse_url(url))
            for node, url in voters_of(config).items()
            if node not in own
        ]
    return found


async def unreached(configs: Sequence[Config], *, wait_s: float) -> list[str]:
    """What these nodes do not reach within that time, or what answers there and is not the right node.

    All that listens here goes on listening until the time is over: other machines may be later.
    """
    if not configs:
        return []
    deadline = asyncio.get_running_loop().time() + wait_s
    async with AsyncExitStack() as stack:
        for config in configs:
            for address in _own(config):
                await _listen(config, address, stack)
        accepted = read_secrets(configs[0].cluster.secret_file)
        targets = targets_of(configs)
        found = await asyncio.gather(*(_reach(one, accepted, deadline) for one in targets))
        left_s = deadline - asyncio.get_running_loop().time()
        if targets and left_s > 0:
            await asyncio.sleep(left_s)
    return [problem for problem in found if problem is not None]


def _own(config: Config) -> list[Address]:
    voter = voter_of(config)
    return [peer_address(config), *([] if voter is None else [parse_url(voter.url)])]


async def _listen(config: Config, address: Address, stack: AsyncExitStack) -> None:
    secret = read_secrets(config.cluster.secret_file)[0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S_MAX):
                words = (await reader.readuntil(b"\n")).split()
                if len(words) == 2 and words[0] == _HELLO:
                    proof = _proof(secret, words[1], config.broker.node_id)
                    writer.write(b"%s %d %d %s\n" % (_HELLO, config.broker.node_id, _now_ms(), proof))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    try:
        bound = bind(address)
    except CannotListen:
        # A broker or an etcd runs there, or the check of this machine has told of it already.
        return
    server = await asyncio.start_server(answer, sock=bound, limit=_LINE_BYTES_MAX)
    stack.callback(server.close)


async def _reach(target: Target, accepted: Sequence[bytes], deadline: float) -> str | None:
    """Try until it answers or the time is over; returns what is wrong."""
    place = f"{target.setting}: node {target.node_id} at {target.address}"
    while True:
        try:
            async with asyncio.timeout(_ANSWER_S_MAX):
                answer, skew_ms = await _ask(target.address)
        except (OSError, TimeoutError) as error:
            if asyncio.get_running_loop().time() >= deadline:
                reason = error.strerror or "no answer"
                return f"{place} cannot be reached: {reason}"
            await asyncio.sleep(_RETRY_S)
        else:
            return None if answer is None else _judged(place, target, accepted, answer, skew_ms)


def _judged(place: str, target: Target, accepted: Sequence[bytes], answer: _Answer, skew_ms: int) -> str | None:
    if answer.node_id != target.node_id:
        return f"{place} is node {answer.node_id}, by its own settings"
    if not any(hmac.compare_digest(_proof(one, answer.nonce, answer.node_id), answer.proof) for one in accepted):
        return f"{place} has another secret: compare cluster.secret_file on both machines"
    if abs(skew_ms) > SKEW_MS_WARNED:
        return f"{place} has a clock that differs by {skew_ms} ms: check NTP on both machines"
    return None


class _Answer(NamedTuple):
    node_id: int
    nonce: bytes
    proof: bytes


async def _ask(address: Address) -> tuple[_Answer | None, int]:
    """The answer of another check and how far its clock is ahead; None if something else listens there."""
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=_LINE_BYTES_MAX)
    try:
        nonce = secrets.token_hex(16).encode()
        sent_ms = _now_ms()
        writer.write(b"%s %s\n" % (_HELLO, nonce))
        words = (await reader.readuntil(b"\n")).split()
        if len(words) != 4 or words[0] != _HELLO or not words[1].isdigit() or not words[2].isdigit():
            return None, 0
        skew_ms = int(words[2]) - (sent_ms + _now_ms()) // 2
        return _Answer(int(words[1]), nonce, words[3]), skew_ms
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionResetError):
        return None, 0
    finally:
        writer.close()


def _proof(secret: bytes, nonce: bytes, node_id: int) -> bytes:
    return hmac.new(secret, b"%s %s %d" % (_HELLO, nonce, node_id), "sha256").hexdigest().encode()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
