"""What the documentation shows is run as it stands, block by block."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(language: str, code: str, broker) -> str:
    """Run a block against this broker instead of the one on the default ports."""
    code = code.replace("127.0.0.1:8080", broker.http).replace("127.0.0.1:9092", broker.kafka)
    code = code.replace("127.0.0.1:9000", broker.grpc)
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else [sys.executable, "-c", code]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GOQUEUE_SERVER": f"http://{broker.http}"}
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=90, check=False)
    assert finished.returncode == 0, f"{code}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


def test_the_first_hour_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "tutorial" / "first-hour.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    for expected in ("created topic payments with 2 partitions", "nothing was changed", '"acks":"all"', "refund of 4"):
        assert expected in shown


def test_the_page_on_delay_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "delay.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    for expected in (
        '"delayed":true',
        "is delivered now",
        "cancelled reminders",
        "here it is",
        "1 waits",
        "created schedule morning-report",
    ):
        assert expected in shown


def test_the_page_on_transactions_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "transactions.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    for expected in ("worked on 3", "tripled 3", "booked ", "to review: [b'", '"status":"committed"', "CompleteCommit"):
        assert expected in shown


def test_the_page_on_prepared_transactions_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "prepared-transactions.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    assert "totals-query" in shown
    assert '"already_decided":false,"committed":2' in shown
    assert '"already_decided":true,"committed":0' in shown


def test_the_page_on_share_groups_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "share-groups.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    _, worked, dead, seen, _ = outputs
    assert sorted(worked.split("\n")) == [
        "",
        "cannot be packed: order 3",
        "packed: order 1",
        "packed: order 2",
        "packed: order 4",
    ]
    assert "order 3" in dead
    assert "packing" in seen
    assert "share" in seen


def test_the_page_on_fast_clients_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "fast-clients.md").read_text()

    _, written, read, _ = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    assert written == "0 of 30000 were not acknowledged\n"
    assert read == "read 30000\n"


def test_the_page_on_queues_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "queue.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    expected = [
        *("requeued jobs", '"failed":0', "charged 10 EUR", "delivered 10 parcels", "1 sent back", "stored before"),
        "by priority: [b'vaccine', b'flowers', b'books']",
    ]
    assert [text for text in expected if text not in shown] == [], shown


def test_the_page_on_backups_works_from_top_to_bottom(start_broker, monkeypatch):
    broker = start_broker()
    monkeypatch.setenv("DATA", str(broker.data_dir))
    page = (ROOT / "docs" / "howto" / "backup.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    assert shown.count("greetings") >= 4
    assert "mb per second" in shown


def test_the_page_on_stories_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "explain.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    explained, by_http, _, traced, switched = outputs
    assert "cartons/0@0  completed" in explained
    for expected in ("consume.nacked", "error the printer is out of paper", "to cartons.dlq/0@0", "to cartons/0@1"):
        assert expected in explained
    assert '"status": "completed"' in by_http
    assert traced == "same trace: True\n"
    assert "false" in switched


@pytest.mark.slow
def test_the_page_on_schemas_works_from_top_to_bottom(broker):
    page = (ROOT / "docs" / "howto" / "schemas.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    expected = [
        *("orders-value version 1 is schema", "REQUIRED_ATTRIBUTE_ADDED", "exit code 1", "orders-value version 2"),
        *('{"id":1,"item":"tea"}', "order 1 paid 9.5", "left: 0", "refused", "invalid_value", "1 sent back"),
        *('"additionalProperties": false', "BACKWARD (the new reads the old): compatible"),
    ]
    assert [text for text in expected if text not in shown] == [], shown


def test_the_page_on_the_queue_connection_works(broker):
    page = (ROOT / "docs" / "reference" / "queue-connection.md").read_text()

    (shown,) = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    assert shown.splitlines() == ["received b'a postcard'", "['settled', 2, [['acked', None, None, [], None, 200]]]"]


def test_pages_can_be_followed_one_after_another_on_one_broker():
    made = re.compile(r"topic create ([\w.-]+)|schedule create ([\w.-]+)")
    pages: dict[str, set[str]] = {}
    for folder in ("tutorial", "howto", "reference"):
        for page in (ROOT / "docs" / folder).glob("*.md"):
            for _, code in BLOCK.findall(page.read_text()):
                for names in made.findall(code):
                    pages.setdefault("".join(names), set()).add(page.name)

    assert {name: where for name, where in pages.items() if len(where) > 1} == {}


def test_the_page_on_security_works_from_top_to_bottom(tmp_path):
    page = (ROOT / "docs" / "howto" / "security.md").read_text()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        kafka, http = (str(each.getsockname()[1]) for each in (one, two))
    script = []
    for language, code in BLOCK.findall(page):
        here = code.replace("9092", kafka).replace("8080", http)
        script.append(here if language == "bash" else f"{sys.executable} - <<'END'\n{here}END\n")
    kill = "trap 'kill $(cat broker.pid) 2>/dev/null || true' EXIT\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", kill + "\n".join(script)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{(tmp_path / 'broker.log').read_text()}"
    told = ("User:admin", "first order", '"accounts"', "['accounts']", "administrator admin at", "administrator  admin")
    for expected in told:
        assert expected in done.stdout
