"""Callers over HTTP who try what no honest client does."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.unit.servers.access.secured_node import SECRET, secured_node

from goqueue.security.model import Acl, Binding, Operation, Pattern, Permission, Resource
from goqueue.servers.http.admission.browser_guard import BrowserGuard
from goqueue.servers.http.admission.entrance import Entrances
from goqueue.servers.http.admission.login import HttpLogin
from goqueue.servers.http.app import make_app


@pytest.fixture
async def door() -> AsyncIterator[tuple[TestClient[Any, Any], dict[str, str], Any]]:
    async with secured_node() as (running, keys):
        assert running.security is not None
        guard = BrowserGuard(names=(), allowed_hosts=(), cors_origin="")
        app = make_app(running.services, lambda _: None, Entrances(guard, HttpLogin(running.security)))
        async with TestClient(TestServer(app)) as client:
            yield client, keys, running


async def raw(client: TestClient[Any, Any], *lines: bytes, body: bytes = b"") -> tuple[int, bytes]:
    """Send bytes as they are; status and the rest of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(b"\r\n".join((*lines, b"Host: localhost", b"Connection: close", b"", body)))
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]), answer


async def user(running: Any, name: str, *bindings: str) -> dict[str, str]:
    """Headers of a new principal with `role` or `role:prefix`."""
    admin = running.security.admin
    for text in bindings:
        role, _, prefix = text.partition(":")
        await admin.bind(Binding(f"User:{name}", role, prefix))
    return {"Authorization": f"Bearer {(await admin.create_key(f'User:{name}')).text}"}


async def status(
    client: TestClient[Any, Any], method: str, path: str, headers: dict[str, str], body: Any = None
) -> int:
    async with client.request(method, path, json=body, headers=headers) as answer:
        return answer.status


# --- credentials --------------------------------------------------------------------------

_DEEP = base64.urlsafe_b64encode(b"[" * 9_000).rstrip(b"=")


@pytest.mark.parametrize(
    "header",
    [
        b"X-API-Key: gq_abc_\xff\xfe",
        b"Authorization: Bearer gq_abc_\xff",
        b"Authorization: Bearer \xff.\xff.\xff",
        b"Authorization: Basic \xff\xff",
        b"Authorization: Basic \xc3\xa9",
        b"Authorization: \xff",
        b"Authorization: Bearer " + _DEEP[:6000] + b".e30.c2ln",
    ],
)
async def test_credentials_that_are_no_text_are_wrong_credentials(door: Any, header: bytes) -> None:
    client, _, _ = door
    assert (await raw(client, b"GET /topics HTTP/1.1", header))[0] == 401


async def test_a_denial_is_audited_whatever_bytes_the_client_calls_itself_by(door: Any) -> None:
    client, keys, running = door
    lines: list[bytes] = []
    running.security.audit.add_sink(lines.extend)
    key = f"Authorization: Bearer {keys['nothing']}".encode()
    headers = (key, b"X-Client-Id: \xff\xfe", b"User-Agent: \xff", b"X-Request-Id: \xff1")
    assert (await raw(client, f"GET /topics/{SECRET} HTTP/1.1".encode(), *headers))[0] == 403
    running.security.audit.flush()
    denials = [json.loads(line) for line in lines]
    assert [one["name"] for one in denials if one["decision"] == "denied"] == [SECRET]


async def test_a_name_as_long_as_a_request_does_not_fill_the_audit_log(door: Any) -> None:
    client, _, running = door
    lines: list[bytes] = []
    running.security.audit.add_sink(lines.extend)
    shown = base64.b64encode(b"x" * 4000 + b":wrong password")
    assert (await raw(client, b"GET /topics HTTP/1.1", b"Authorization: Basic " + shown))[0] == 401
    running.security.audit.flush()
    assert len(lines) == 1
    assert len(lines[0]) < 1000


async def test_a_request_whose_body_is_still_coming_ends_with_its_key(door: Any) -> None:
    client, _, running = door
    admin = running.security.admin
    made = await admin.create_key("User:slow")
    await admin.bind(Binding("User:slow", "producer", ""))
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    head = f"POST /topics/{SECRET}/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {made.text}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 14\r\n\r\n".encode() + b'{"value":')
    # The key is found good as soon as the headers are there, and is then marked as used.
    authenticator = running.security.authenticator
    async with asyncio.timeout(10):
        while not authenticator.last_used_ms(made.key):  # noqa: ASYNC110 - polled to a deadline
            await asyncio.sleep(0.01)
        await admin.delete_key(made.key.id)
        started = asyncio.get_running_loop().time()
        assert await reader.read() == b""
    assert asyncio.get_running_loop().time() - started < 1.0
    writer.close()
    assert running.services.queries.offsets(SECRET, 0).high_watermark == 0


# --- schemas ------------------------------------------------------------------------------


async def registered(client: TestClient[Any, Any], headers: dict[str, str], subject: str) -> int:
    body = {"schema": json.dumps({"type": "object", "title": subject}), "schemaType": "JSON"}
    async with client.post(f"/subjects/{subject}/versions", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return int((await answer.json())["id"])


async def test_the_schema_of_a_topic_is_shown_to_those_who_may_see_the_topic(door: Any) -> None:
    client, keys, running = door
    root = {"Authorization": f"Bearer {keys['admin']}"}
    number = await registered(client, root, f"{SECRET}-value")
    async with client.get(f"/schemas/ids/{number}", headers=root) as answer:
        guid = (await answer.json())["guid"]
    reader, stranger = await user(running, "reader", f"consumer:{SECRET}"), await user(running, "other", "consumer:x")
    for path in (f"/schemas/ids/{number}", f"/schemas/ids/{number}/schema", f"/schemas/guids/{guid}"):
        assert await status(client, "GET", path, reader) == 200, path
        assert await status(client, "GET", path, stranger) == 404, path


async def test_a_schema_can_be_used_by_another_only_by_those_who_may_see_it(door: Any) -> None:
    client, keys, running = door
    root = {"Authorization": f"Bearer {keys['admin']}"}
    await registered(client, root, f"{SECRET}-value")
    headers = await user(running, "author", "producer:mine")
    body = {
        "schema": '{"type": "object", "properties": {"a": {"$ref": "secret.json"}}}',
        "schemaType": "JSON",
        "references": [{"name": "secret.json", "subject": f"{SECRET}-value", "version": 1}],
    }
    for path in (
        "/subjects/mine-value/versions",
        "/subjects/mine-value",
        "/compatibility/subjects/mine-value/versions",
    ):
        assert await status(client, "POST", path, headers, body) == 403, path


async def test_a_subject_belongs_to_the_topic_whose_name_it_has_and_to_no_shorter_one(door: Any) -> None:
    client, keys, running = door
    root = {"Authorization": f"Bearer {keys['admin']}"}
    await registered(client, root, "orders-key-value")
    headers = await user(running, "writer")
    rule = (Resource.TOPIC, "orders", Pattern.LITERAL, "User:writer", "*", Operation.ALL, Permission.ALLOW)
    await running.security.admin.add_acls([Acl(*rule)])
    assert await status(client, "GET", "/subjects/orders-key-value/versions", headers) == 403
    assert await status(client, "DELETE", "/subjects/orders-key-value", headers) == 403
    assert await status(client, "GET", "/subjects/orders-key/versions", headers) == 404


async def test_a_value_is_not_decoded_by_a_schema_that_its_reader_may_not_see(door: Any) -> None:
    client, keys, running = door
    root = {"Authorization": f"Bearer {keys['admin']}"}
    number = await registered(client, root, f"{SECRET}-value")
    headers = await user(running, "reader", "producer:mine", "consumer:mine")
    assert await status(client, "POST", "/topics", root, {"name": "mine"}) == 201
    value = base64.b64encode(b"\0" + number.to_bytes(4, "big") + b"{}").decode()
    body = {"value": value, "encoding": "base64", "partition": 0}
    assert await status(client, "POST", "/topics/mine/messages", headers, body) < 300
    for who, decoded in ((root, {}), (headers, None)):
        async with client.get("/topics/mine/partitions/0/messages?decode=true", headers=who) as answer:
            (message,) = (await answer.json())["messages"]
        assert message.get("decoded") == decoded
    assert message["decode_error"] == "the schema is not registered"
