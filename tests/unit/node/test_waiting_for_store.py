"""A start waits for the metadata store: as long as it takes where its servers start with the nodes, and says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.metadata.shared.kv import KvError
from goqueue.node.assembly.cluster import STORE_S_MAX, _first_lease
from goqueue.testing.sim_loop import run

LATE_TRIES = int(10 * STORE_S_MAX)


class LateSession:
    """The store answers after some tries."""

    tries = 0

    async def begin(self) -> int:
        self.tries += 1
        if self.tries < LATE_TRIES:
            raise KvError("Connection refused")
        return 7


def config_of(mode: str) -> Config:
    voters = tuple(f"{number}=http://10.0.0.{number}:2380" for number in (1, 2, 3))
    plain = Config()
    return replace(plain, metadata=replace(plain.metadata, mode=mode, voters=voters))


def test_a_node_with_an_etcd_of_its_own_waits_for_enough_others(caplog: pytest.LogCaptureFixture) -> None:
    session: Any = LateSession()
    assert run(_first_lease(session, config_of("managed"))) == 7
    assert "waiting for the metadata store, which needs 2 of nodes 1, 2, 3" in caplog.messages[0]
    seconds = LATE_TRIES * 0.2
    assert len(caplog.messages) == pytest.approx(seconds / 5, rel=0.1), "one every five seconds"


def test_an_etcd_that_somebody_else_runs_is_not_waited_for_without_end() -> None:
    session: Any = LateSession()
    with pytest.raises(ConfigError, match=r"metadata\.endpoints: the metadata store does not answer: Connection"):
        run(_first_lease(session, config_of("external")))
    assert session.tries == pytest.approx(STORE_S_MAX / 0.2, abs=2)
