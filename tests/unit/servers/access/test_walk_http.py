"""Every HTTP route: without credentials, with wrong ones, and as every role."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.unit.servers.access.secured_node import ROLES, SECRET, secured_node

from goqueue.servers.access.doors import HTTP_NEEDS
from goqueue.servers.http.admission.browser_guard import BrowserGuard
from goqueue.servers.http.admission.entrance import Entrances
from goqueue.servers.http.admission.login import HttpLogin
from goqueue.servers.http.app import ROUTES, make_app

OPEN = {"/health", "/healthz", "/livez", "/readyz"}
# What whoever is authenticated gets: nothing of others is in it.
HARMLESS = {
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/version"),
    ("GET", "/topics"),
    ("GET", "/groups"),
    ("GET", "/transactions"),
    ("GET", "/prepared"),
    ("GET", "/schedules"),
    ("GET", "/pipelines"),
    ("GET", "/traces"),
    ("GET", "/traces/search"),
    ("GET", "/schemas/types"),
    ("GET", "/config"),
    ("GET", "/mode"),
    ("GET", "/contexts"),
    ("GET", "/admin/security/whoami"),
}
_LONG = {"/topics/{topic}/messages/stream"}
NAMES = {"topic": SECRET, "group": "g", "transactional_id": "t", "writer": "w", "subject": f"{SECRET}-value"}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/topics/{topic}/messages"): {"value": "x"},
    ("POST", "/producers/init"): {"transactional_id": "t"},
    ("POST", "/topics/{topic}/receive"): {"group": "g"},
    ("POST", "/messages/ack"): {"receipts": [f"{SECRET}:0:0:1:x"]},
    ("POST", "/messages/nack"): {"receipts": [f"{SECRET}:0:0:1:x"]},
    ("POST", "/messages/reject"): {"receipts": [f"{SECRET}:0:0:1:x"]},
    ("POST", "/messages/visibility"): {"receipts": [f"{SECRET}:0:0:1:x"], "visibility_ms": 1},
    ("POST", "/topics"): {"name": "made"},
    ("PUT", "/topics/{topic}"): {},
    ("PATCH", "/topics/{topic}"): {"config": {"retention.ms": "1"}},
    ("PUT", "/admin/security/users/{name}"): {"password": "long enough"},
    ("POST", "/admin/security/keys"): {"principal": "User:nothing"},
    ("PUT", "/admin/security/roles/{name}"): {"grants": []},
    ("POST", "/admin/security/bindings"): {"principal": "User:nothing", "role": "admin"},
    ("POST", "/admin/security/acls"): {"principal": "User:nothing", "operation": "all", "resource": "cluster"},
    ("POST", "/subjects/{subject}/versions"): {"schema": '{"type": "string"}'},
    ("PUT", "/config"): {"compatibility": "NONE"},
    ("PUT", "/mode"): {"mode": "READONLY"},
}


@pytest.fixture
async def door() -> AsyncIterator[tuple[TestClient[Any, Any], dict[str, str], Any]]:
    async with secured_node() as (running, keys):
        assert running.security is not None
        guard = BrowserGuard(names=(), allowed_hosts=(), cors_origin="")
        app = make_app(running.services, lambda _: None, Entrances(guard, HttpLogin(running.security)))
        async with TestClient(TestServer(app)) as client:
            yield client, keys, running


def path_of(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: NAMES.get(found[1], "0"), path)


async def ask(client: TestClient[Any, Any], method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    body = BODIES.get((method, path), {} if method in {"POST", "PUT", "PATCH"} else None)
    async with client.request(method, path_of(path), json=body, headers=headers, allow_redirects=False) as answer:
        return answer.status, await answer.text()


def routes() -> list[tuple[str, str]]:
    return [(route.method, route.path) for route in ROUTES if route.path not in _LONG]


def test_every_route_says_what_it_needs() -> None:
    assert {(route.method, route.path) for route in ROUTES} - HTTP_NEEDS.keys() == set()
    assert HTTP_NEEDS.keys() - {(route.method, route.path) for route in ROUTES} == set()


async def test_without_credentials_only_health_is_answered(door: Any) -> None:
    client, _, _ = door
    answered = {path for method, path in routes() if (await ask(client, method, path, {}))[0] != 401}
    assert answered == OPEN


@pytest.mark.parametrize(
    "wrong",
    [
        {"Authorization": "Bearer gq_000000000000_nothing"},
        {"Authorization": "Basic bm9ib2R5Om5vdGhpbmc="},
        {"Authorization": "Bearer a.b.c"},
        {"Authorization": "Negotiate abc"},
        {"X-API-Key": "gq_"},
    ],
)
async def test_wrong_credentials_get_nothing_at_all(door: Any, wrong: dict[str, str]) -> None:
    client, _, _ = door
    assert {(await ask(client, method, path, wrong))[0] for method, path in routes()} == {401}


async def test_whoever_has_no_role_sees_nothing_and_changes_nothing(door: Any) -> None:
    client, keys, _ = door
    headers = {"Authorization": f"Bearer {keys['nothing']}"}
    for method, path in routes():
        status, text = await ask(client, method, path, headers)
        assert status < 500 or status == 501, (method, path, text)
        if path in OPEN or (method, path) in HARMLESS:
            assert SECRET not in text or path == "/openapi.json", (method, path, text)
            continue
        assert status in {400, 403, 404}, (method, path, status, text)


async def test_an_administrator_is_refused_nothing(door: Any) -> None:
    client, keys, _ = door
    headers = {"Authorization": f"Bearer {keys['admin']}"}
    refused = []
    for method, path in routes():
        if method == "DELETE" and path.startswith("/topics/{topic}"):
            continue
        status, text = await ask(client, method, path, headers)
        if status in {401, 403} and "internal_topic" not in text:
            refused.append((method, path, text))
        assert status < 500 or status in {501, 503}, (method, path, text)
    assert refused == []


@pytest.mark.parametrize("role", [role for role in ROLES if role not in {"admin", "nothing", "operator", "producer"}])
async def test_roles_that_read_change_no_topic_no_message_and_no_right(door: Any, role: str) -> None:
    client, keys, running = door
    headers = {"Authorization": f"Bearer {keys[role]}"}

    def state() -> Any:
        store = running.security.store
        return (
            [(one.name, dict(one.config)) for one in running.services.topics.list() if not one.internal],
            running.services.queries.offsets(SECRET, 0).high_watermark,
            sorted(store.users),
            sorted(store.keys),
            sorted(store.bindings),
            sorted(store.acls),
            sorted(store.roles),
        )

    before = state()
    for method, path in routes():
        status, text = await ask(client, method, path, headers)
        assert status < 500 or status == 501, (method, path, text)
    assert state() == before


@pytest.mark.parametrize("role", ["producer", "operator"])
async def test_roles_that_write_do_not_read(door: Any, role: str) -> None:
    client, keys, running = door
    from goqueue.caller import Caller
    from goqueue.records import Acks, NewRecord

    root = running.services.for_caller(Caller(principal="User:admin"))
    await root.publish.publish_records(SECRET, [NewRecord(None, b"hidden treasure")], acks=Acks.LEADER)
    headers = {"Authorization": f"Bearer {keys[role]}"}
    for method, path in routes():
        if method != "DELETE":
            _, text = await ask(client, method, path, headers)
            assert "hidden treasure" not in text
            assert "aGlkZGVuIHRyZWFzdXJl" not in text


async def test_open_routes_are_opened_by_a_setting() -> None:
    async with secured_node(open_routes=("metrics", "version", "docs")) as (running, _):
        assert running.security is not None
        guard = BrowserGuard(names=(), allowed_hosts=(), cors_origin="")
        app = make_app(running.services, lambda _: None, Entrances(guard, HttpLogin(running.security)))
        async with TestClient(TestServer(app)) as client:
            for path in ("/metrics", "/version", "/docs", "/openapi.json"):
                assert (await ask(client, "GET", path, {}))[0] == 200
            assert (await ask(client, "GET", "/topics", {}))[0] == 401
