"""Schemas on the command line, from a file to decoded messages."""

from __future__ import annotations

import json

import pytest
from tests.e2e.http import Http
from typer.testing import CliRunner

from goqueue.cli.main import app

ORDER = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": false}'
WIDER = ORDER.replace('"integer"', '["integer", "null"]')
USER = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'
PROTO = 'syntax = "proto3"; message Ping { int32 number = 1; }'


@pytest.fixture
def cli(broker, tmp_path, monkeypatch):
    monkeypatch.setenv("GOQUEUE_SERVER", f"http://{broker.http}")
    monkeypatch.setenv("HOME", str(tmp_path))
    runner = CliRunner()

    def run(command, *arguments, stdin=None, code=0):
        done = runner.invoke(app, [command, *map(str, arguments)], input=stdin)
        assert done.exit_code == code, (done.output, done.exception)
        return done.output

    return run


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_schema_is_registered_shown_compared_and_deleted(cli, file):
    subject = "cli-orders-value"
    first = cli("schema", "register", subject, file("order.json", ORDER))
    assert f"{subject} version 1 is schema" in first
    assert cli("schema", "register", subject, file("order.json", ORDER)) == first
    assert "compatible" in cli("schema", "check", subject, file("wider.json", WIDER))
    cli("schema", "register", subject, file("wider.json", WIDER))
    refused = cli("schema", "check", subject, file("text.json", '{"type": "string"}'), code=1)
    assert "#/type" in refused
    assert "incompatible" in cli("schema", "register", subject, file("text.json", '{"type": "string"}'), code=1)

    rows = json.loads(cli("schema", "list", subject, "-o", "json"))
    assert [(row["version"], row["type"]) for row in rows] == [(1, "JSON"), (2, "JSON")]
    assert subject in cli("schema", "list")
    assert '"title": "Order"' in cli("schema", "show", subject)
    assert cli("schema", "show", "--id", rows[0]["id"], "--raw").strip() == ORDER
    changed = cli("schema", "diff", subject, "1", "2")
    assert "BACKWARD (the new reads the old): compatible" in changed
    assert "TYPE_NARROWED" in changed
    facts = json.loads(cli("schema", "diff", subject, "1", "2", "-o", "json"))
    assert (facts["backward"], len(facts["forward"])) == ([], 1)
    assert cli("schema", "diff", subject, "1", file("wider.json", WIDER)).splitlines()[2:] == changed.splitlines()[2:]

    assert "deleted versions 2" in cli("schema", "delete", subject, "-v", "2", "--force")
    assert "deleted versions 1" in cli("schema", "delete", subject, "--force")
    assert "deleted versions 1, 2" in cli("schema", "delete", subject, "--permanent", "--force")
    assert "not found" in cli("schema", "show", subject, code=1)


def test_settings_are_shown_changed_and_removed(cli):
    assert json.loads(cli("schema", "config", "-o", "json"))["compatibility"] == "BACKWARD"
    changed = cli("schema", "config", "cli-set", "--compatibility", "full", "--no-validation", "-o", "json")
    assert json.loads(changed)["validationEnabled"] is False
    assert json.loads(cli("schema", "config", "cli-set", "-o", "json"))["compatibility"] == "FULL"
    assert json.loads(cli("schema", "config", "cli-set", "--reset", "-o", "json"))["compatibility"] == "BACKWARD"
    assert "Invalid compatibility" in cli("schema", "config", "--compatibility", "sideways", code=1)


@pytest.mark.parametrize(
    ("name", "text", "good", "bad"),
    [
        ("order.json", ORDER, {"id": 7}, {"id": "x"}),
        ("user.avsc", USER, {"name": "ada"}, {"other": "ada"}),
        ("ping.proto", PROTO, {"number": 3}, {"number": "x"}),
    ],
)
def test_values_are_encoded_by_a_schema_and_shown_decoded(cli, file, broker, name, text, good, bad):
    topic = f"cli-{name}"
    cli("schema", "register", f"{topic}-value", file(name, text))
    cli("produce", topic, "-m", json.dumps(good), "--schema", f"{topic}-value", "--create")
    lines = file("lines", json.dumps({"value": good}) + "\n")
    cli("produce", topic, "--schema", f"{topic}-value:1", "-f", lines)
    assert (
        "does not fit"
        in (refused := cli("produce", topic, "-m", json.dumps(bad), "--schema", f"{topic}-value", code=1))
        or "id" in refused
    )
    cli("produce", topic, "-m", "plain text")

    shown = cli("consume", topic).splitlines()
    assert sorted(shown) == sorted([json.dumps(good, separators=(",", ":"))] * 2 + ["plain text"])
    rows = [json.loads(line) for line in cli("consume", topic, "--format", "json", "--raw").splitlines()]
    assert sum(row["value"].startswith("\x00") for row in rows) == 2
    assert Http(broker.http).get(f"/subjects/{topic}-value/versions") == [1]


def test_a_schema_is_inferred_from_messages_and_tested_on_others(cli, broker):
    http = Http(broker.http)
    http.post("/topics", {"name": "cli-infer", "num_partitions": 1})
    values = [{"id": number, "tags": ["a"], "note": None if number % 2 else "x"} for number in range(15)]
    http.publish("cli-infer", *(json.dumps(value) for value in values))
    # The sixteenth is one of those that the proposal is tested on.
    http.publish("cli-infer", '{"id": "odd"}', "no json")
    found = json.loads(cli("schema", "infer", "cli-infer", "-o", "json"))

    assert found["schema"]["properties"]["id"] == {"type": "integer"}
    assert found["schema"]["properties"]["note"] == {"type": ["null", "string"]}
    assert found["schema"]["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}
    assert found["schema"]["required"] == ["id", "tags", "note"]
    assert (found["seen"], found["tested"], found["failed"], found["not_json"]) == (17, 4, 1, 1)
    assert found["examples"]


def test_lint_needs_no_broker(cli, file, monkeypatch):
    monkeypatch.setenv("GOQUEUE_SERVER", "http://127.0.0.1:1")
    assert "additionalProperties" in cli("schema", "lint", file("a.json", '{"properties": {"a": {}}}'))
    assert "has no default" in cli("schema", "lint", file("a.avsc", USER))
    assert "no package" in cli("schema", "lint", file("a.proto", PROTO))
    assert "not valid JSON" in cli("schema", "lint", file("b.json", "{"), code=1)
    assert "say --type" in cli("schema", "lint", file("schema.txt", "{}"), code=2)
    assert json.loads(cli("schema", "lint", "-", "--type", "json", "-o", "json", stdin="true"))["valid"] is True
