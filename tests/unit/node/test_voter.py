"""The data of a voter's etcd: an old copy of it is told from the data itself, and does not vote."""

from __future__ import annotations

import io
import urllib.request
from functools import partial
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.error import URLError
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from goqueue.config import BrokerConfig, Config, MetadataConfig
from goqueue.metadata.directory import IDENTITY, Start
from goqueue.metadata.events import Node
from goqueue.metadata.keys import node_key, session_key
from goqueue.metadata.shared.etcd.servers import Member
from goqueue.metadata.shared.kv import KvError, Put
from goqueue.metadata.shared.kv_members import encode_node
from goqueue.node.cluster import rejoining
from goqueue.node.cluster.rejoining import is_old_copy, was_removed
from goqueue.node.cluster.voter import Voter, voter_of
from goqueue.testing.kv_model import KvModel

OWN = UUID(int=7)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    voters = ("1=http://10.0.0.1:2380", "2=http://10.0.0.2:2380", "3=http://10.0.0.3:2380")
    return Config(
        broker=BrokerConfig(node_id=1, data_dir=str(tmp_path)),
        metadata=MetadataConfig(mode="managed", voters=voters, listen="http://10.0.0.1:2379"),
    )


@pytest.fixture
def voter(config: Config, tmp_path: Path) -> Voter:
    found = voter_of(config)
    assert found is not None
    (tmp_path / "etcd" / "member").mkdir(parents=True)
    return found


@pytest.mark.parametrize(("known", "is_old"), [(41, False), (42, False), (43, True)])
async def test_data_from_before_a_start_that_others_know_of_is_an_old_copy(
    voter: Voter, config: Config, monkeypatch: Any, known: int, is_old: bool
) -> None:
    async def known_epoch(_voter: Voter, _config: Config) -> int:
        return known

    monkeypatch.setattr(rejoining, "_known_epoch", known_epoch)
    voter.keep_epoch(40)
    voter.keep_epoch(42)
    assert voter.kept_epoch == 42
    assert await is_old_copy(voter, config) is is_old


async def test_where_nobody_answers_or_nothing_was_noted_data_is_taken_for_what_it_is(
    voter: Voter, config: Config, monkeypatch: Any
) -> None:
    async def nobody(_voter: Voter, _config: Config) -> int:
        raise KvError("nobody answers")

    async def known_epoch(_voter: Voter, _config: Config) -> int:
        return 99

    monkeypatch.setattr(rejoining, "_known_epoch", known_epoch)
    assert voter.kept_epoch is None
    assert not await is_old_copy(voter, config), "a directory of an earlier version"
    voter.keep_epoch(42)
    monkeypatch.setattr(rejoining, "_known_epoch", nobody)
    assert not await is_old_copy(voter, config)


async def test_what_the_others_send_after_an_old_copy_was_set_aside_is_not_old(
    voter: Voter, config: Config, tmp_path: Path, monkeypatch: Any
) -> None:
    """The node may be started again before its broker has registered, and noted a new epoch."""

    async def known_epoch(_voter: Voter, _config: Config) -> int:
        return 43

    monkeypatch.setattr(rejoining, "_known_epoch", known_epoch)
    voter.keep_epoch(42)
    assert await is_old_copy(voter, config)
    voter.set_aside()
    (tmp_path / "etcd" / "member").mkdir()
    assert not await is_old_copy(voter, config)


def test_data_that_was_set_aside_is_lost_and_still_there(voter: Voter, tmp_path: Path) -> None:
    (tmp_path / "etcd" / "member" / "wal").write_text("votes")
    voter.set_aside()
    assert not voter.has_data
    assert (tmp_path / "etcd" / "member.old" / "wal").read_text() == "votes"
    (tmp_path / "etcd" / "member").mkdir()
    voter.set_aside()
    assert not voter.has_data


async def test_a_voter_that_cannot_join_says_why(voter: Voter, config: Config, monkeypatch: Any) -> None:
    """etcd closes connections whose certificate does not name where they come from; that is not silence."""

    def read_members(url: str, _tls: object) -> list[dict[str, Any]]:
        if "10.0.0.2" in url:
            raise RemoteDisconnected("Remote end closed connection without response")
        raise URLError(ConnectionRefusedError(111, "Connection refused"))

    monkeypatch.setattr(rejoining, "_read_members", read_members)
    secured = structs.replace(voter, tls=("ca.pem", "node.pem", "node.key"))
    with pytest.raises(KvError) as refused:
        await rejoining._clients_of_others(secured)
    assert str(refused.value).startswith(
        "http://10.0.0.2:2380: the connection was closed; etcd does this when node.pem"
    )
    assert str(refused.value).endswith("http://10.0.0.3:2380: [Errno 111] Connection refused")


async def test_an_etcd_that_has_just_started_knows_no_members_yet(voter: Voter, monkeypatch: Any) -> None:
    """It says null; a node that asked it then ended with a traceback."""
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_args, **_how: io.BytesIO(b"null"))
    with pytest.raises(KvError, match=r"http://10.0.0.2:2380: this etcd knows no members yet"):
        await rejoining._clients_of_others(voter)
    assert await rejoining._members_from_others(voter) == {}


async def test_a_learner_is_promoted_also_when_the_others_answer_later(
    voter: Voter, config: Config, monkeypatch: Any
) -> None:
    own = partial(Member, 7, "node-1", (voter.url,))
    answers = [{}, {7: own(is_learner=True)}, {7: own(is_learner=False)}]
    promoted: list[int] = []

    async def members_from_others(_voter: Voter) -> dict[int, Member]:
        return answers.pop(0)

    async def clients_of_others(_voter: Voter) -> list[str]:
        return ["http://10.0.0.2:2379"]

    async def promote(_connection: object, member_id: int) -> None:
        promoted.append(member_id)

    monkeypatch.setattr(rejoining, "_RETRY_S", 0)
    monkeypatch.setattr(rejoining, "_members_from_others", members_from_others)
    monkeypatch.setattr(rejoining, "_clients_of_others", clients_of_others)
    monkeypatch.setattr(rejoining, "promote", promote)
    await rejoining.settle(voter, config)
    assert promoted == [7]


@pytest.mark.parametrize(("alive", "is_second"), [(None, False), (OWN, False), (UUID(int=8), True)])
async def test_a_machine_that_was_replaced_does_not_take_the_vote_of_its_replacement(
    voter: Voter, config: Config, monkeypatch: Any, tmp_path: Path, alive: UUID | None, is_second: bool
) -> None:
    """It removed the member of the node's name, which was the new machine's, and took its place for good."""
    kv = KvModel().client()
    node = Node(1, UUID(int=8), addresses={"peer": "10.0.0.9:9192"})
    await kv.txn([], [Put(config.metadata.prefix + node_key(1), encode_node(node))])
    if alive is not None:
        await kv.txn([], [Put(config.metadata.prefix + session_key(1), str(alive).encode())])

    async def nothing(*_: Any) -> None:
        """The model is asked, which needs no connection."""

    monkeypatch.setattr(rejoining, "_connected_to_others", nothing)
    monkeypatch.setattr(kv, "close", nothing, raising=False)
    monkeypatch.setattr(rejoining, "EtcdKv", lambda _connection: kv)
    (tmp_path / IDENTITY).write_bytes(msgspec.json.encode(Start(OWN, 3, "")))
    if not is_second:
        await rejoining._refuse_second(voter, config)
        return
    with pytest.raises(KvError, match=r"node 1 has a session from 10\.0\.0\.9:9192, with another data directory"):
        await rejoining._refuse_second(voter, config)


@pytest.mark.parametrize(
    ("listed", "is_removed"),
    [(["http://10.0.0.1:2380", "http://10.0.0.2:2380"], False), (["http://10.0.0.2:2380"], True), ([], False)],
)
async def test_a_member_that_the_others_have_removed_is_noticed(
    voter: Voter, monkeypatch: Any, listed: list[str], is_removed: bool
) -> None:
    """Its etcd ended at once with every start, for ever."""

    def read_members(*_: Any) -> list[dict[str, Any]]:
        if not listed:
            raise URLError("nobody answers")
        return [{"id": number, "peerURLs": [url]} for number, url in enumerate(listed)]

    monkeypatch.setattr(rejoining, "_read_members", read_members)
    assert await was_removed(voter) is is_removed
