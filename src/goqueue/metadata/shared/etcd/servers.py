"""The servers of etcd themselves: whether their versions can be trusted, how full they are, which alarms are raised."""

from __future__ import annotations

import msgspec

from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.messages import message
from goqueue.metadata.shared.kv import KvError

# Older ones lost or corrupted data: 3.4 before 3.4.21, and 3.5.0 to 3.5.2.
OLDEST_3_4 = (3, 4, 21)
_OLDEST_3_5 = (3, 5, 3)
GET_ETCD = "apt install etcd-server, or https://github.com/etcd-io/etcd/releases"

_ALARMS = {1: "NOSPACE", 2: "CORRUPT"}


class Server(msgspec.Struct, frozen=True):
    """One server as it answered."""

    endpoint: str
    version: str
    size_bytes: int
    used_bytes: int
    is_leader: bool
    errors: tuple[str, ...] = ()


class Member(msgspec.Struct, frozen=True):
    """A member of the etcd cluster. One that was never started has no name."""

    member_id: int
    name: str
    peer_urls: tuple[str, ...]
    is_learner: bool
    client_urls: tuple[str, ...] = ()


def version_problem(version: str) -> str | None:
    """Why a server of this version is not used; None if it is."""
    try:
        numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    except ValueError:
        return f"{version!r} is not a version of etcd"
    unfit = numbers < OLDEST_3_4 or (3, 5) <= numbers < _OLDEST_3_5
    if not unfit:
        return None
    return f"etcd {version} can lose data: use 3.4.21 or later, or 3.5.3 or later ({GET_ETCD})"


async def server_at(connection: Connection, endpoint: str) -> Server:
    """Ask one server about itself; raises a `KvError`."""
    found = await connection.call("Maintenance/Status", message("Nothing"), "StatusResponse", endpoint=endpoint)
    is_leader = found.leader == found.header.member_id
    return Server(endpoint, found.version, found.dbSize, found.dbSizeInUse, is_leader, tuple(found.errors))


async def version_problems(connection: Connection, endpoints: tuple[str, ...]) -> list[str]:
    """What is wrong with the versions of those that answer; empty if nothing is, or if none answers."""
    problems = []
    for endpoint in endpoints:
        try:
            server = await server_at(connection, endpoint)
        except KvError:
            continue
        problem = version_problem(server.version)
        if problem is not None:
            problems.append(f"{endpoint}: {problem}")
    return problems


async def alarms(connection: Connection) -> list[str]:
    """The alarms that are raised, by name: with NOSPACE no change of metadata is taken."""
    found = await connection.call("Maintenance/Alarm", message("AlarmRequest"), "AlarmResponse")
    return [_ALARMS.get(one.alarm, str(one.alarm)) for one in found.alarms]


async def members(connection: Connection) -> list[Member]:
    """The members of the etcd cluster."""
    found = await connection.call("Cluster/MemberList", message("Nothing"), "MemberListResponse")
    return [
        Member(one.ID, one.name, tuple(one.peerURLs), one.isLearner, tuple(one.clientURLs)) for one in found.members
    ]


async def add_learner(connection: Connection, peer_url: str) -> None:
    """Add a member that does not vote until it is promoted."""
    request = message("MemberAddRequest", peerURLs=[peer_url], isLearner=True)
    await connection.call("Cluster/MemberAdd", request, "Nothing")


async def remove_member(connection: Connection, member_id: int) -> None:
    """Take a member out for good."""
    await connection.call("Cluster/MemberRemove", message("MemberRequest", ID=member_id), "Nothing")


async def promote(connection: Connection, member_id: int) -> None:
    """Let a learner vote; etcd refuses (`KvUnavailable`) until it has caught up."""
    await connection.call("Cluster/MemberPromote", message("MemberRequest", ID=member_id), "Nothing")
