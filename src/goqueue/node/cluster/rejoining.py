"""A voter whose data was lost: its member is removed by the others, added again as a learner, and promoted in time.

Under its old member id it would vote as if it had never seen what was committed, and vote that away. So would an old
copy of the data, which is noticed by the broker epoch that is noted beside it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.metadata.directory import IDENTITY, Start
from goqueue.metadata.keys import node_key, session_key
from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.etcd.servers import Member, add_learner, members, promote, remove_member
from goqueue.metadata.shared.kv import KvError
from goqueue.metadata.shared.kv_members import decode_node
from goqueue.node.cluster.etcd import credentials_of
from goqueue.node.cluster.voter import Voter

_log = logging.getLogger("goqueue.cluster")

_RETRY_S = 0.5
_ASK_S = 2.0
# So long a start waits to hear how far the others have seen this node come.
_COMPARE_S_MAX = 2.0


async def join_again(voter: Voter, config: Config) -> dict[str, str]:
    """Have the lost member replaced by a learner; returns the members by name, with their URLs."""
    if len(voter.urls) == 1:
        raise ConfigError(
            [
                (
                    f"metadata.dir: {voter.directory} holds no data of etcd, and no other voter has it: restore the "
                    "directory, or the metadata with 'goqueue cluster recover --from-backup FILE --config FILE --yes'"
                )
            ]
        )
    _log.warning(
        "the etcd of node %d has lost its data in %s: it joins the others again", voter.node_id, voter.directory
    )
    while True:
        try:
            await _refuse_second(voter, config)
            return await _replaced(voter, config)
        except KvError as error:
            _log.warning("the etcd of node %d cannot join the others yet: %s", voter.node_id, error)
            await asyncio.sleep(_RETRY_S * 4)


async def is_old_copy(voter: Voter, config: Config) -> bool:
    """Whether the data is from before a start of this node that the others know of.

    Where they do not answer in time nobody can tell, as when all nodes start at once; then it is taken for what it is.
    """
    kept = voter.kept_epoch
    if not voter.has_data or kept is None or len(voter.urls) == 1:
        return False
    try:
        async with asyncio.timeout(_COMPARE_S_MAX):
            known = await _known_epoch(voter, config)
    except (KvError, OSError, TimeoutError):
        return False
    if known > kept:
        _log.warning(
            "the etcd data of node %d in %s is an old copy, of broker epoch %d; the others know of epoch %d",
            voter.node_id,
            voter.directory,
            kept,
            known,
        )
    return known > kept


async def _known_epoch(voter: Voter, config: Config) -> int:
    """The broker epoch with which the node registered last, as the other voters have it."""
    kv = EtcdKv(await _connected_to_others(voter, config))
    try:
        found = await kv.get(config.metadata.prefix + node_key(voter.node_id))
    finally:
        await kv.close()
    return -1 if found is None else decode_node(found.value).broker_epoch


async def was_removed(voter: Voter) -> bool:
    """Whether the others know this node's member no more: under its id it never votes again."""
    found = await _members_from_others(voter)
    if not found or any(voter.url in one.peer_urls for one in found.values()):
        return False
    _log.warning("the member of node %d was removed from etcd: its data is set aside", voter.node_id)
    return True


async def settle(voter: Voter, config: Config) -> None:
    """Once its directory is there the cluster is founded; a learner is promoted when it has caught up."""
    while not voter.has_data:  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(_RETRY_S / 10)
    voter.end_founding()
    connection: Connection | None = None
    try:
        while True:
            found = await _members_from_others(voter)
            if not found and len(voter.urls) > 1:
                # None of them answers yet, and this one may be a learner that only waits to be promoted.
                await asyncio.sleep(_RETRY_S)
                continue
            own = next((one for one in found.values() if voter.url in one.peer_urls), None)
            if own is None or not own.is_learner:
                # A single voter has no others to ask; nor is there anything to promote.
                return
            connection = connection or Connection(
                await _clients_of_others(voter), partial(credentials_of, config.metadata)
            )
            try:
                await promote(connection, own.member_id)
            except KvError:
                await asyncio.sleep(_RETRY_S)
            else:
                _log.warning("the etcd of node %d has caught up and votes again", voter.node_id)
                return
    finally:
        if connection is not None:
            await connection.close()


async def _refuse_second(voter: Voter, config: Config) -> None:
    """Raise KvError while another machine is this node: to join in its place would take the vote from it for good."""
    kv = EtcdKv(await _connected_to_others(voter, config))
    try:
        session = await kv.get(config.metadata.prefix + session_key(voter.node_id))
        node = await kv.get(config.metadata.prefix + node_key(voter.node_id))
    finally:
        await kv.close()
    if session is None or session.value.decode() == _own_directory(config):
        return
    addresses = {} if node is None else decode_node(node.value).addresses
    raise KvError(
        f"node {voter.node_id} has a session from {addresses.get('peer', 'another address')}, with another data "
        "directory: it ends in seconds if that node has stopped; if this machine was replaced, stop it"
    )


def _own_directory(config: Config) -> str:
    """The id of this node's data directory; empty as long as it has none."""
    try:
        content = (Path(config.broker.data_dir) / IDENTITY).read_bytes()
        return str(msgspec.json.decode(content, type=Start).directory_id)
    except (OSError, msgspec.DecodeError):
        return ""


async def _replaced(voter: Voter, config: Config) -> dict[str, str]:
    connection = await _connected_to_others(voter, config)
    try:
        for one in await members(connection):
            # By its name too: on other hardware it may have had another address.
            if one.name == voter.name or (voter.url in one.peer_urls and one.name):
                await remove_member(connection, one.member_id)
        if all(voter.url not in one.peer_urls for one in await members(connection)):
            await add_learner(connection, voter.url)
        found = await members(connection)
        return {(one.name or voter.name): one.peer_urls[0] for one in found}
    finally:
        await connection.close()


async def _connected_to_others(voter: Voter, config: Config) -> Connection:
    return Connection(await _clients_of_others(voter), partial(credentials_of, config.metadata))


async def _members_from_others(voter: Voter) -> dict[int, Member]:
    """The members as any other voter lists them on its peer port; empty if none answers."""
    for number, url in voter.urls.items():
        if number == voter.node_id:
            continue
        try:
            listed = await asyncio.to_thread(_read_members, url, voter.tls)
        except (OSError, ValueError):
            continue
        return {
            int(one["id"]): Member(
                int(one["id"]), one.get("name", ""), tuple(one.get("peerURLs", ())), bool(one.get("isLearner"))
            )
            for one in listed
        }
    return {}


async def _clients_of_others(voter: Voter) -> list[str]:
    """The URLs on which other voters take clients; raises `KvError` if none answers."""
    problems = []
    for number, url in voter.urls.items():
        if number != voter.node_id:
            try:
                listed = await asyncio.to_thread(_read_members, url, voter.tls)
            except (OSError, ValueError) as error:
                problems.append(f"{url}: {_reason(error, voter.tls[1])}")
                continue
            clients = [
                client
                for one in listed
                for client in one.get("clientURLs", ())
                if voter.url not in one.get("peerURLs", ())
            ]
            if clients:
                return clients
            problems.append(f"{url}: lists no member that takes clients")
    raise KvError("; ".join(problems))


def _reason(error: Exception, certificate: str) -> str:
    """Why there is no answer. A certificate that etcd does not like ends the connection without a word."""
    cause = getattr(error, "reason", error)
    if certificate and isinstance(cause, ConnectionResetError | BrokenPipeError):
        return (
            f"the connection was closed; etcd does this when {certificate} does not name the address from which this "
            "node connects, or is not from the authority of the nodes"
        )
    return str(cause)


def _read_members(url: str, tls: tuple[str, str, str]) -> list[dict[str, Any]]:
    ca, certificate, key = tls
    context: ssl.SSLContext | None = None
    if url.startswith("https"):
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key)
    with urllib.request.urlopen(f"{url}/members", timeout=_ASK_S, context=context) as answer:  # noqa: S310 - checked URL
        listed = json.load(answer)
    if not listed:
        # One that has just been started says null.
        raise ValueError("this etcd knows no members yet")
    return list(listed)
