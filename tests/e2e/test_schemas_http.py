"""The registry over plain HTTP: what is durable, what is refused, and how."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from tests.e2e.http import Http

INTEGER = {"schemaType": "JSON", "schema": '{"type": "integer"}'}
NUMBER = {"schemaType": "JSON", "schema": '{"type": "number"}'}


@pytest.fixture
def http(broker) -> Http:
    return Http(broker.http)


def refused(http: Http, method: str, path: str, body: object = None) -> tuple[int, int, str]:
    answer = http.ask(method, path, body)
    return answer.status, answer.body["error_code"], answer.body["message"]


def test_kill_9_loses_nothing_that_was_answered(start_broker):
    broker = start_broker()
    http = Http(broker.http)
    for number in range(5):
        body = {"schemaType": "JSON", "schema": json.dumps({"title": f"t{number}"})}
        http.post(f"/subjects/s{number}/versions", body)
    http.ask("PUT", "/config/s0", {"compatibility": "FULL"})
    http.delete("/subjects/s1")
    http.delete("/subjects/s1?permanent=true")
    broker.kill()
    broker.start()
    http = Http(broker.http)

    assert http.get("/subjects") == ["s0", "s2", "s3", "s4"]
    assert http.get("/schemas/config/s0")["compatibilityLevel"] == "FULL"
    assert json.loads(http.get("/schemas/ids/5")["schema"]) == {"title": "t4"}
    assert refused(http, "GET", "/schemas/ids/2")[:2] == (404, 40403)
    assert http.post("/subjects/new/versions", INTEGER)["id"] == 6
    assert http.post("/subjects/s1/versions", INTEGER)["version"] == 2


def test_kill_9_takes_a_worker_along_that_is_busy_with_a_schema_that_never_ends(start_broker):
    broker = start_broker(GOQUEUE_SCHEMAS_WORKER_MS_MAX=60_000)
    http = Http(broker.http)
    twice = {f"d{i}": {"allOf": [{"$ref": f"#/definitions/d{i + 1}"}] * 2} for i in range(40)}
    slow = {"$ref": "#/definitions/d0", "definitions": {**twice, "d40": {"type": "object"}}}
    config = {"goqueue.schema.validation": "full", "goqueue.schema.missing": "latest"}
    http.post("/topics", {"name": "slow", "num_partitions": 1, "config": config})
    http.post("/subjects/slow-value/versions", {"schemaType": "JSON", "schema": json.dumps(slow)})
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(http.ask, "POST", "/topics/slow/messages", {"value": "{}"})
        deadline = time.monotonic() + 20
        while not (workers := _busy(broker.pid)):
            assert time.monotonic() < deadline
        broker.kill()
        assert pending.exception(30) is not None
    _, left = psutil.wait_procs(workers, timeout=10)
    assert left == []


def _busy(pid: int) -> list[psutil.Process]:
    """Schema workers of a broker that have worked for a while."""
    children = psutil.Process(pid).children()
    return [one for one in children if sum(one.cpu_times()[:2]) > 0.5 and "goqueue.formats.worker" in one.cmdline()]


def test_registrations_at_once_get_one_id(http):
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: http.post("/subjects/at-once/versions", INTEGER), range(16)))
    assert len({(one["id"], one["version"]) for one in done}) == 1


def test_every_route_answers_under_both_bases_and_in_a_context(http):
    http.post("/schemas/subjects/based/versions", INTEGER)
    for base in ("", "/schemas", "/v1", "/v1/schemas"):
        assert http.get(f"{base}/subjects/based/versions") == [1]
        assert http.get(f"{base}/subjects/based/versions/latest")["schema"] == INTEGER["schema"]
        assert http.get(f"{base}/mode") == {"mode": "READWRITE"}
    http.post("/contexts/.team/subjects/based/versions", NUMBER)
    assert http.get("/subjects/%3A.team%3Abased/versions/latest")["schema"] == NUMBER["schema"]
    assert http.get("/contexts/.team/subjects") == [":.team:based"]
    assert ".team" in http.get("/contexts")
    stats = http.get("/schemas/stats")
    assert stats["globalCompatibility"] == "BACKWARD"
    assert "based" in [one["subject"] for one in stats["subjects"]]


def test_a_subject_may_have_any_name(http):
    for name in ("a/b", "ä ö", "100%", "..", "a%2Fb", "x" * 500):
        quoted = "".join(f"%{byte:02X}" for byte in name.encode())
        http.post(f"/subjects/{quoted}/versions", INTEGER)
        assert name in http.get("/subjects")
        assert http.get(f"/subjects/{quoted}/versions") == [1]
    assert refused(http, "POST", "/subjects/a%0Ab/versions", INTEGER)[:2] == (422, 42208)
    assert refused(http, "POST", f"/subjects/{'x' * 600}/versions", INTEGER)[:2] == (422, 42208)


def test_booleans_are_taken_as_python_and_java_spell_them(http):
    for spelling in ("true", "True", "TRUE"):
        done = http.post(
            f"/subjects/spelled-{spelling}/versions?normalize={spelling}",
            {"schemaType": "JSON", "schema": '{"type": "string", "title": "T"}'},
        )
        assert done["schema"] == '{"title":"T","type":"string"}'
    http.post("/subjects/spelled/versions?normalize=False", INTEGER)


def test_a_comparison_tells_its_reasons_when_asked(http):
    http.post("/subjects/compared/versions", NUMBER)
    path = "/compatibility/subjects/compared/versions/latest"
    assert http.post(path, INTEGER) == {"is_compatible": False}
    verbose = http.post(f"{path}?verbose=True", INTEGER)
    assert "#/type" in verbose["messages"][0]
    assert http.post(f"{path}?verbose=True", NUMBER) == {"is_compatible": True}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/subjects/nobody/versions", None, 404, 40401),
        ("GET", "/subjects/refusals/versions/9", None, 404, 40402),
        ("GET", "/subjects/refusals/versions/zero", None, 422, 42202),
        ("GET", "/schemas/ids/99999", None, 404, 40403),
        ("GET", "/schemas/guids/none", None, 404, 40403),
        ("POST", "/subjects/refusals", {"schemaType": "JSON", "schema": "true"}, 404, 40403),
        ("POST", "/subjects/refusals/versions", {"schemaType": "JSON", "schema": "{"}, 422, 42201),
        ("POST", "/subjects/refusals/versions", {"schemaType": "XML", "schema": "<a/>"}, 422, 42201),
        ("POST", "/subjects/refusals/versions", {"schemaType": "JSON", "schema": '{"type":"string"}'}, 409, 409),
        ("POST", "/subjects/refusals/versions", b"nonsense", 400, 400),
        ("PUT", "/config", {"compatibility": "SOME"}, 422, 42203),
        ("PUT", "/config", {}, 400, 400),
        ("PUT", "/config", {"alias": "other"}, 400, 400),
        ("PUT", "/mode", {"mode": "SOME"}, 422, 42204),
        ("DELETE", "/subjects/refusals?permanent=true", None, 404, 40405),
        ("GET", "/associations/resources/lkc-1/topic", None, 404, 404),
    ],
)
def test_refusals_have_the_numbers_of_the_registry(http, method, path, body, status, code):
    http.post("/subjects/refusals/versions", INTEGER)
    found = refused(http, method, path, body)
    assert found[:2] == (status, code), found


def test_the_media_type_is_the_one_that_was_asked_for(http):
    own = "application/vnd.schemaregistry.v1+json"
    asked = {"Accept": f"{own}, application/json"}
    assert http.ask("GET", "/subjects", headers=asked).headers["Content-Type"].startswith(own)
    assert http.ask("GET", "/subjects").headers["Content-Type"].startswith("application/json")
    body = json.dumps(INTEGER).encode()
    sent = http.ask("POST", "/subjects/media/versions", body, headers={**asked, "Content-Type": own})
    assert sent.status == 200
