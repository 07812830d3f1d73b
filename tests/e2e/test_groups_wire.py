"""Group APIs, byte for byte as kio writes and reads them, in every version we advertise."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from tests.e2e.group_members import create_topic, quick_broker
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.codec.kafka.schema import FieldShape, message_shape
from goqueue.servers.kafka.registry import HANDLERS

COMMIT, FETCH, FIND, JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, FORGET = 8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47
CONSUMER_BEAT, CONSUMER_DESCRIBE = 68, 69
NONE, UNKNOWN_MEMBER, ILLEGAL_GENERATION, NOT_COORDINATED, ID_REQUIRED = 0, 25, 22, 42, 79
GROUP_NOT_FOUND, FENCED_EPOCH, STALE_EPOCH, UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID = 69, 110, 113, 3, 100
INCONSISTENT_PROTOCOL, INVALID_GROUP, INVALID_REGEX = 23, 24, 128


class Wire:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its answer; fields that the version lacks are left out."""
        self.send(api, version, **fields)
        size = int.from_bytes(self._read(4), "big")
        return read_response(api, version, self._read(size))

    def send(self, api: int, version: int, **fields: Any) -> None:
        known = _known(message_shape(api, "request").fields, version, fields)
        frame = request_frame(api, version, known, client_id="wire")
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


def _known(fields: tuple[FieldShape, ...], version: int, value: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for one in fields:
        if version in one.versions and one.name in value:
            item = value[one.name]
            if one.type == "struct" and one.is_array and item is not None:
                item = [_known(one.children, version, each) for each in item]
            known[one.name] = item
    return known


def versions(key: int) -> list[int]:
    first, last = HANDLERS[key].API.versions
    return list(range(first, last + 1))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with quick_broker(tmp_path_factory.mktemp("broker")) as process:
        create_topic(process.kafka, "t", 2)
        yield process.kafka


@pytest.fixture(scope="module")
def topic_id(address: str) -> UUID:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    found = admin.describe_topics(TopicCollection(["t"]))["t"].result(10).topic_id
    return UUID(int=(found.get_most_significant_bits() % 2**64) << 64 | found.get_least_significant_bits() % 2**64)


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    with Wire(address) as connection:
        yield connection


def join(wire: Wire, group: str, version: int, member_id: str = "", **more: Any) -> dict[str, Any]:
    return wire.ask(
        JOIN,
        version,
        group_id=group,
        session_timeout=10_000,
        rebalance_timeout=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        **more,
    )


def member_of(wire: Wire, group: str, *, join_version: int = 9, sync_version: int = 5) -> str:
    """The id of the one member, and leader, of a stable first generation."""
    joined = join(wire, group, join_version)
    if joined["error_code"] == ID_REQUIRED:
        joined = join(wire, group, join_version, joined["member_id"])
    assert joined["error_code"] == NONE
    assert (joined["generation_id"], joined["protocol_name"]) == (1, "range")
    assert joined["leader"] == joined["member_id"] == joined["members"][0]["member_id"]
    synced = wire.ask(
        SYNC,
        sync_version,
        group_id=group,
        generation_id=1,
        member_id=joined["member_id"],
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined["member_id"], "assignment": b"mine"}],
    )
    assert (synced["error_code"], synced["assignment"]) == (NONE, b"mine")
    return str(joined["member_id"])


@contextmanager
def stable_group(wire: Wire, group: str) -> Iterator[str]:
    member_id = member_of(wire, group)
    yield member_id
    left = wire.ask(LEAVE, 5, group_id=group, members=[{"member_id": member_id}])
    assert left["members"][0]["error_code"] == NONE


# --- the classic protocol ---------------------------------------------------------------


@pytest.mark.parametrize("version", versions(JOIN))
def test_join_in_every_version(wire: Wire, version: int) -> None:
    first = join(wire, f"join-{version}", version)
    if version >= 4:
        assert first["error_code"] == ID_REQUIRED
        assert first["member_id"].startswith("wire-")
    else:
        assert first["error_code"] == NONE
    refused = join(wire, f"join-{version}", version, "stranger")
    assert (refused["error_code"], refused["member_id"]) == (UNKNOWN_MEMBER, "stranger")
    assert join(wire, "", version)["error_code"] == INVALID_GROUP


@pytest.mark.parametrize("version", versions(SYNC))
def test_sync_in_every_version(wire: Wire, version: int) -> None:
    member_id = member_of(wire, f"sync-{version}", sync_version=version)

    stale = wire.ask(SYNC, version, group_id=f"sync-{version}", generation_id=0, member_id=member_id, assignments=[])

    assert (stale["error_code"], stale["assignment"]) == (ILLEGAL_GENERATION, b"")


@pytest.mark.parametrize("version", versions(BEAT))
def test_heartbeat_in_every_version(wire: Wire, version: int) -> None:
    """The generation is what fences a zombie."""
    with stable_group(wire, f"beat-{version}") as member_id:
        beat = {"group_id": f"beat-{version}", "member_id": member_id}
        assert wire.ask(BEAT, version, generation_id=1, **beat)["error_code"] == NONE
        assert wire.ask(BEAT, version, generation_id=0, **beat)["error_code"] == ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(LEAVE))
def test_leave_in_every_version(wire: Wire, version: int) -> None:
    group = f"leave-{version}"
    member_id = member_of(wire, group)
    request = {"group_id": group, "member_id": member_id, "members": [{"member_id": member_id}]}
    left = wire.ask(LEAVE, version, **request)
    again = wire.ask(LEAVE, version, **request)

    assert left["error_code"] == NONE
    if version >= 3:
        assert (left["members"][0]["member_id"], left["members"][0]["error_code"]) == (member_id, NONE)
        assert again["members"][0]["error_code"] == UNKNOWN_MEMBER
    else:
        assert again["error_code"] == UNKNOWN_MEMBER


@pytest.mark.parametrize("version", versions(FIND))
def test_find_coordinator_in_every_version(wire: Wire, address: str, version: int) -> None:
    found = wire.ask(FIND, version, key="g", key_type=0, coordinator_keys=["g", "h"])
    for one in found["coordinators"] if version >= 4 else [found]:
        assert (one["error_code"], f"{one['host']}:{one['port']}") == (NONE, address)
    if version >= 1:
        ours = wire.ask(FIND, version, key="x", key_type=1, coordinator_keys=["x"])
        assert (ours["coordinators"][0] if version >= 4 else ours)["error_code"] == NONE
        refused = wire.ask(FIND, version, key="x", key_type=9, coordinator_keys=["x"])
        assert (refused["coordinators"][0] if version >= 4 else refused)["error_code"] == NOT_COORDINATED


# --- offsets ----------------------------------------------------------------------------


def commit(wire: Wire, group: str, version: int, topic_id: UUID, **more: Any) -> list[int]:
    partitions = [
        {"partition_index": one, "committed_offset": 5 + one, "committed_metadata": "note"} for one in (0, 1, 9)
    ]
    topics = [
        {"name": "t", "topic_id": topic_id, "partitions": partitions},
        {"name": "nowhere", "topic_id": UUID(int=1), "partitions": partitions[:1]},
    ]
    reply = wire.ask(COMMIT, version, group_id=group, topics=topics, **more)
    return [one["error_code"] for topic in reply["topics"] for one in topic["partitions"]]


@pytest.mark.parametrize("version", versions(COMMIT))
def test_commit_in_every_version(wire: Wire, topic_id: UUID, version: int) -> None:
    group = f"commit-{version}"
    missing = UNKNOWN_TOPIC_ID if version >= 10 else UNKNOWN_TOPIC
    assert commit(wire, group, version, topic_id) == [NONE, NONE, UNKNOWN_TOPIC, missing]

    gone = GROUP_NOT_FOUND if version >= 9 else ILLEGAL_GENERATION
    zombie = commit(wire, f"gone-{version}", version, topic_id, generation_id_or_member_epoch=3, member_id="m")
    assert zombie == [gone, gone, gone, UNKNOWN_TOPIC_ID if version >= 10 else gone], "the group's error is everybody's"


@pytest.mark.parametrize("version", versions(FETCH))
def test_fetch_in_every_version(wire: Wire, topic_id: UUID, version: int) -> None:
    group = f"fetch-{version}"
    commit(wire, group, 9, topic_id)
    topics = [{"name": "t", "topic_id": topic_id, "partition_indexes": [0, 1, 2]}]
    asked = {"group_id": group, "topics": topics}

    reply = wire.ask(FETCH, version, groups=[asked], **asked)

    found = reply["groups"][0] if version >= 8 else reply
    (topic,) = found["topics"]
    assert topic.get("name", "t") == "t"
    assert topic.get("topic_id", topic_id) == topic_id
    assert [one["committed_offset"] for one in topic["partitions"]] == [5, 6, -1]
    assert [one["metadata"] for one in topic["partitions"]] == ["note", "note", ""]
    assert found.get("error_code", NONE) == NONE


@pytest.mark.parametrize("version", [one for one in versions(FETCH) if one >= 2])
def test_fetch_of_all_topics(wire: Wire, topic_id: UUID, version: int) -> None:
    group = f"fetch-all-{version}"
    commit(wire, group, 9, topic_id)
    asked = {"group_id": group, "topics": None}

    reply = wire.ask(FETCH, version, groups=[asked, {"group_id": "unknown", "topics": None}], **asked)

    found = reply["groups"][0] if version >= 8 else reply
    assert [[one["committed_offset"] for one in topic["partitions"]] for topic in found["topics"]] == [[5, 6]]
    if version >= 8:
        assert (reply["groups"][1]["topics"], reply["groups"][1]["error_code"]) == ([], NONE)


def test_fetch_by_an_unknown_topic_id_says_so(wire: Wire) -> None:
    topics = [{"topic_id": UUID(int=9), "partition_indexes": [0]}]
    reply = wire.ask(FETCH, 10, groups=[{"group_id": "g", "topics": topics}])

    (partition,) = reply["groups"][0]["topics"][0]["partitions"]
    assert (partition["error_code"], partition["committed_offset"]) == (UNKNOWN_TOPIC_ID, -1)


def test_delete_of_offsets(wire: Wire, topic_id: UUID) -> None:
    commit(wire, "forget", 9, topic_id)
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]

    deleted = wire.ask(FORGET, 0, group_id="forget", topics=topics)
    unknown = wire.ask(FORGET, 0, group_id="never-was", topics=topics)

    assert (deleted["error_code"], deleted["topics"][0]["partitions"][0]["error_code"]) == (NONE, NONE)
    assert unknown["error_code"] == GROUP_NOT_FOUND


# --- administration ---------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(LIST))
def test_list_in_every_version(wire: Wire, version: int) -> None:
    with stable_group(wire, f"list-{version}"):
        reply = wire.ask(LIST, version, states_filter=["stable"], types_filter=["Classic"])

    listed = {one["group_id"]: one for one in reply["groups"]}
    one = listed[f"list-{version}"]
    assert (reply["error_code"], one["protocol_type"]) == (NONE, "consumer")
    assert one.get("group_state", "Stable") == "Stable"
    assert one.get("group_type", "classic") == "classic"


@pytest.mark.parametrize("version", versions(DESCRIBE))
def test_describe_in_every_version(wire: Wire, version: int) -> None:
    with stable_group(wire, f"describe-{version}") as member_id:
        known, unknown = wire.ask(DESCRIBE, version, groups=[f"describe-{version}", "unknown"])["groups"]

    assert (known["error_code"], known["group_state"], known["protocol_data"]) == (NONE, "Stable", "range")
    assert [(one["member_id"], one["member_assignment"]) for one in known["members"]] == [(member_id, b"mine")]
    assert (unknown["group_state"], unknown["error_code"]) == ("Dead", GROUP_NOT_FOUND if version >= 6 else NONE)


@pytest.mark.parametrize("version", versions(DELETE))
def test_delete_in_every_version(wire: Wire, topic_id: UUID, version: int) -> None:
    commit(wire, f"delete-{version}", 9, topic_id)

    reply = wire.ask(DELETE, version, groups_names=[f"delete-{version}", "unknown"])

    assert [one["error_code"] for one in reply["results"]] == [NONE, GROUP_NOT_FOUND]


# --- the new protocol -------------------------------------------------------------------


def consumer_beat(wire: Wire, group: str, version: int, member_id: str, epoch: int, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"group_id": group, "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        fields |= {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return wire.ask(CONSUMER_BEAT, version, **(fields | more))


@pytest.mark.parametrize("version", versions(CONSUMER_BEAT))
def test_consumer_heartbeat_in_every_version(wire: Wire, topic_id: UUID, version: int) -> None:
    group = f"consumer-{version}"
    joined = consumer_beat(wire, group, version, "m" if version else "", 0)
    member_id = joined["member_id"]
    assert (joined["error_code"], joined["member_epoch"], joined["heartbeat_interval"]) == (NONE, 1, 200)
    assert joined["assignment"]["topic_partitions"] == [{"topic_id": topic_id, "partitions": [0, 1]}]
    assert member_id.startswith("m" if version else "wire-")

    quiet = consumer_beat(wire, group, version, member_id, 1)
    assert (quiet["error_code"], quiet["assignment"]) == (NONE, None)
    assert consumer_beat(wire, group, version, member_id, 7)["error_code"] == FENCED_EPOCH
    assert consumer_beat(wire, group, version, "stranger", 1)["error_code"] == UNKNOWN_MEMBER
    assert consumer_beat(wire, "unknown", version, "m", 1)["error_code"] == GROUP_NOT_FOUND

    stale = commit(wire, group, 9, topic_id, member_id=member_id, generation_id_or_member_epoch=0)
    assert stale[:2] == [STALE_EPOCH] * 2
    assert join(wire, group, 9)["error_code"] == INCONSISTENT_PROTOCOL

    left = consumer_beat(wire, group, version, member_id, -1)
    assert (left["error_code"], left["member_epoch"]) == (NONE, -1)


def test_a_pattern_that_is_none_is_refused_with_a_message(wire: Wire) -> None:
    reply = consumer_beat(wire, "pattern", 1, "m", 0, subscribed_topic_names=None, subscribed_topic_regex="(")

    assert reply["error_code"] == INVALID_REGEX
    assert "not closed" in reply["error_message"]


@pytest.mark.parametrize("version", versions(CONSUMER_DESCRIBE))
def test_consumer_describe_in_every_version(wire: Wire, topic_id: UUID, version: int) -> None:
    group = f"consumer-describe-{version}"
    consumer_beat(wire, group, 1, "m", 0, instance_id="i")

    known, unknown = wire.ask(CONSUMER_DESCRIBE, version, group_ids=[group, "unknown"])["groups"]

    (member,) = known["members"]
    owned = [{"topic_id": topic_id, "topic_name": "t", "partitions": [0, 1]}]
    assert (known["error_code"], known["group_state"], known["group_epoch"], known["assignor_name"]) == (
        NONE,
        "Stable",
        1,
        "uniform",
    )
    assert (member["member_id"], member["instance_id"], member["client_id"]) == ("m", "i", "wire")
    assert member["assignment"]["topic_partitions"] == member["target_assignment"]["topic_partitions"] == owned
    assert unknown["error_code"] == GROUP_NOT_FOUND
    assert wire.ask(DESCRIBE, 6, groups=[group])["groups"][0]["error_code"] == GROUP_NOT_FOUND


def test_a_member_whose_connection_breaks_while_it_waits_is_not_missed(address: str) -> None:
    """The join that was lost does not stop the next one from being answered."""
    with Wire(address) as first, Wire(address) as second, Wire(address) as third:
        leader = member_of(first, "broken")
        second.send(
            JOIN,
            3,
            group_id="broken",
            session_timeout=10_000,
            rebalance_timeout=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        beat = {"group_id": "broken", "generation_id": 1, "member_id": leader}
        while third.ask(BEAT, 4, **beat)["error_code"] == NONE:
            pass  # until the broker has taken the join in
        second._socket.close()

        assert join(first, "broken", 9, leader)["generation_id"] == 2
