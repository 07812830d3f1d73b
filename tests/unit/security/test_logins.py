"""Logins by SASL while users change, and messages that are made to break the parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.security.test_scram import final
from tests.unit.servers.access.secured_node import secured_node

from goqueue.errors import AuthenticationFailed
from goqueue.security import sasl

_PASSWORD = "the first password"


async def begun(running: Any) -> tuple[Any, bytes]:
    """A login of SCRAM after its first message, and the message that would finish it."""
    await running.security.admin.put_user("alice", _PASSWORD)
    login = sasl.begin("SCRAM-SHA-256", running.security.authenticator)
    answer = (await login.step(b"n,,n=alice,r=abc")).decode()
    return login, final("SCRAM-SHA-256", "n=alice,r=abc", answer, _PASSWORD)


async def test_a_login_goes_through_while_nothing_changes() -> None:
    async with secured_node() as (running, _):
        login, last = await begun(running)
        await login.step(last)
        assert login.identity.principal == "User:alice"


async def test_a_password_that_was_changed_during_a_login_proves_nothing() -> None:
    async with secured_node() as (running, _):
        login, last = await begun(running)
        await running.security.admin.put_user("alice", "another password")
        with pytest.raises(AuthenticationFailed):
            await login.step(last)
        assert login.identity is None


async def test_a_proof_that_is_no_text_of_base64_is_a_failed_login() -> None:
    async with secured_node() as (running, _):
        login, last = await begun(running)
        with pytest.raises(AuthenticationFailed):
            await login.step(last.partition(b",p=")[0] + ",p=éé".encode())


async def test_a_change_is_audited_when_the_queue_of_events_is_full() -> None:
    async with secured_node() as (running, _):
        audit, lines = running.security.audit, []
        audit.add_sink(lines.extend)
        for _ in range(11_000):
            audit.login("User:x", "plain", "1.2.3.4", "wrong")
        await running.security.admin.put_user("bob", _PASSWORD)
        assert [one["name"] for line in lines if (one := json.loads(line))["event"] == "change"] == ["bob"]
