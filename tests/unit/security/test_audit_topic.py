"""Lines of the audit log on their way to a topic that another node leads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.caller import INTERNAL
from goqueue.errors import GoQueueError, PeerLost, StorageError
from goqueue.security import audit_topic
from goqueue.security.audit import AuditLog
from goqueue.security.audit_topic import AuditTopic
from goqueue.testing.clock import ManualClock


class Leader:
    """Where the topic is: here, on another node that can be reached or not, or nowhere."""

    def __init__(self) -> None:
        self.is_here, self.is_reachable = False, True
        self.here: list[bytes] = []
        self.there: list[bytes] = []

    def append_here(self, lines: Sequence[bytes]) -> None:
        if not self.is_here:
            raise GoQueueError("this node does not lead __audit-0")
        self.here += lines

    async def append_there(self, lines: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        if not self.is_reachable:
            raise PeerLost(2, "the connection ended")
        self.there += lines


async def test_lines_go_to_whoever_leads_in_order_and_wait_while_nobody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "_RETRY_S", 0.001)
    leader = Leader()
    topic = AuditTopic(leader.append_here, leader.append_there)
    topic.start()
    topic([b"1", b"2"])
    assert await topic.stored(5) == ""
    leader.is_reachable = False
    topic([b"3"])
    assert "connection ended" in await topic.stored(0.05)
    # It leads now, but what waits comes first.
    leader.is_here = True
    topic([b"4"])
    leader.is_reachable = True
    assert await topic.stored(5) == ""
    topic([b"5"])
    assert (leader.there, leader.here) == ([b"1", b"2", b"3", b"4"], [b"5"])
    await topic.close()
    await topic.close()


async def test_no_more_than_so_many_lines_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "_WAITING_MAX", 3)
    leader = Leader()
    topic = AuditTopic(leader.append_here, leader.append_there)
    topic([b"1", b"2", b"3"])
    with pytest.raises(StorageError, match="3 lines wait"):
        topic([b"4"])


@pytest.mark.parametrize("is_required", [False, True])
async def test_a_change_that_must_be_audited_is_refused_while_no_leader_has_it(
    monkeypatch: pytest.MonkeyPatch, is_required: bool
) -> None:
    monkeypatch.setattr("goqueue.security.audit._CHANGE_S_MAX", 0.1)
    leader = Leader()
    audit = AuditLog(ManualClock(), with_data=False, is_required=is_required, node_id=3)
    audit.write_to(AuditTopic(leader.append_here, leader.append_there))
    audit.start()
    await audit.changed(INTERNAL, "put_user", "alice")
    assert b'"name":"alice","node_id":3' in leader.there[0]
    leader.is_reachable = False
    if is_required:
        with pytest.raises(StorageError, match="nothing is changed"):
            await audit.changed(INTERNAL, "put_user", "bob")
    else:
        await audit.changed(INTERNAL, "put_user", "bob")
    assert audit.problem() == "node 2 cannot be reached: the connection ended"
    leader.is_reachable = True
    await audit.close()
    assert b'"name":"bob"' in leader.there[1]
