"""Errors of a commit of offsets: what passes with a leader is told as a coordinator that is not available."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.errors import (
    DiskFull,
    GoQueueError,
    IllegalGeneration,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    PeerUnreachable,
    TopicNotFound,
)
from goqueue.groups.offsets.commits import Commits
from goqueue.servers.kafka.commit_errors import commit_error_code

from .conftest import Call

CREATE_TOPICS, OFFSET_COMMIT = 19, 8
UNKNOWN_TOPIC, UNAVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION = 3, 15, 16, 22


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PeerUnreachable(2, "it is down"), UNAVAILABLE),
        (NotLeader("another does"), UNAVAILABLE),
        (NotEnoughReplicas("1 of 2"), UNAVAILABLE),
        (DiskFull("no room"), UNAVAILABLE),
        (NotCoordinator("another is"), NOT_COORDINATOR),
        (TopicNotFound("a"), UNKNOWN_TOPIC),
        (IllegalGeneration("it is over"), ILLEGAL_GENERATION),
        (None, 0),
    ],
)
def test_clients_get_errors_that_they_know(error: GoQueueError | None, code: int) -> None:
    assert commit_error_code(error) == code


async def test_a_leader_that_cannot_be_reached_is_no_error_for_the_application(call: Call, monkeypatch: Any) -> None:
    """Its records may not be safe yet, so the commit is refused; Kafka's own client would end on a network error."""
    await call(CREATE_TOPICS, 7, topics=[{"name": "a", "num_partitions": 1, "replication_factor": 1}], timeout=5000)

    async def unreachable(_self: Commits, resolved: Any) -> Any:
        return [PeerUnreachable(2, "it is down") for _ in resolved]

    monkeypatch.setattr(Commits, "lasting", unreachable)
    partition = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    reply = await call(
        OFFSET_COMMIT,
        8,
        group_id="readers",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "a", "partitions": [partition]}],
    )
    assert reply["topics"][0]["partitions"][0]["error_code"] == UNAVAILABLE
