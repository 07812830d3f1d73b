"""The live page of a pipeline: what a run tells is shown, hostile texts stay texts, and a browser draws it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.http import Http

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running import live
from goqueue.servers.http.routes import pipeline_page

CHROMIUM = shutil.which("chromium")
HOSTILE = "</title><script>document.title='taken'</script>"


def query(sink: str, batch: int, **more: Any) -> dict[str, Any]:
    plain = {"group": "g", "active": True, "rows_written": 100 * batch, "at": None, "watermark": None, "restarts": 0}
    figures = {"rows_per_second": 1234.5, "batch_ms": 90 + batch, "state_rows": 7, "state_bytes": 4096}
    empty = {"expectations": {}, "last_error": None}
    return {"sink": sink, "batch": batch, "lag": {"orders": 1000 - batch}, **plain, **figures, **empty, **more}


def told(broker: Any, state: str = "running") -> None:
    """A run of three batches, as `goqueue pipeline run` tells it."""
    pipeline = load_values(
        {
            "name": "shop",
            "broker": broker.kafka,
            "sources": {"orders": {"topic": "orders"}},
            "steps": [{"filter": {"name": "large", "where": "offset > 10"}}],
            "sinks": [{"topic": {"topic": "large"}}, {"console": {}}],
        }
    )
    page = live.LivePage(pipeline)
    for batch in range(3):
        broken = {"checks": {"rows": 10, "paid": batch}}
        rows = [
            query("topic", batch, expectations=broken, watermark="2026-01-01T00:00:00Z"),
            query("console", batch, last_error=HOSTILE),
        ]
        page.tell(state if batch == 2 else f"{state} {batch}", None, rows)
    page.close()


def test_both_sides_mean_the_same_topic() -> None:
    assert live.TOPIC == pipeline_page.TOPIC


def test_what_a_run_tells_stands_on_the_page(broker: Any) -> None:
    told(broker)

    text = Http(broker.http).get("/pipelines/shop/live").decode()

    behind = int((dt.datetime.now(dt.UTC) - dt.datetime(2026, 1, 1, tzinfo=dt.UTC)).total_seconds()) // 1000
    assert f"<td class=n>{behind:,}," in text
    assert re.search(r"running, told \d+ s ago", text)
    for part in ("1,234.5", "2026-01-01T00:00:00Z", "4,096", "<td>paid</td>", "lag, messages"):
        assert part in text
    # Of ten rows, two broke the rule.
    assert "<td>checks</td><td>paid</td><td class=n>10</td><td class=n>2</td>" in text
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    picture = text.partition("data:image/svg+xml;base64,")[2].partition("'")[0]
    drawn = [one.text for one in ET.fromstring(base64.b64decode(picture)).iter() if one.text]
    # Two queries read the source; each writes its own sink.
    assert drawn.count("1,234/s") == 2
    assert "2,469/s" in drawn


def test_a_pipeline_that_nobody_runs_has_no_page_and_a_state_that_is_none_is_told(broker: Any) -> None:
    http = Http(broker.http)
    assert http.ask("GET", "/pipelines/nobody/live").status == 404

    told(broker)
    producer = Producer({"bootstrap.servers": broker.kafka})
    producer.produce(live.TOPIC, key="torn", value=json.dumps({"name": "torn", "state": 5}))
    assert producer.flush(10) == 0

    assert http.ask("GET", "/pipelines/torn/live").status == 400
    assert http.ask("GET", "/pipelines/shop/live").status == 200


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_draws_it_and_runs_nothing_of_what_a_run_told(broker: Any, tmp_path: Path) -> None:
    told(broker)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    address = f"http://{broker.http}/pipelines/shop/live"

    shot = tmp_path / "page.png"
    subprocess.run(
        [str(CHROMIUM), *options, "--window-size=1200,1000", f"--screenshot={shot}", address],
        check=True,
        capture_output=True,
        timeout=60,
    )
    dom = subprocess.run(
        [str(CHROMIUM), *options, "--dump-dom", address], check=True, capture_output=True, text=True, timeout=60
    ).stdout

    assert "<title>shop</title>" in dom
    assert dom.count("<polyline") == 6
    assert "<script" not in dom
    # A page that is not blank.
    assert shot.stat().st_size > 20_000
