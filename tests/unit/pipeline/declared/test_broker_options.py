"""As whom a run asks the broker, where it does so by itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.declared.form.sinks import TopicSink
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running import batches, live

PIPELINE = load_values({"name": "p", "sources": {"a": {"topic": "a"}}, "sinks": [{"console": {}}]})


class Asked(Exception):
    """Ends what would go on with the answer."""


def test_the_live_page_is_written_with_the_security_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def client(_servers: str, **options: Any) -> None:
        asked.append(options)
        raise OSError("nobody is there")

    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\nssl.ca.location=/ca.pem\n")
    monkeypatch.setenv("GOQUEUE_KAFKA_CONFIG", str(config))
    monkeypatch.setattr(live, "WireClient", client)
    page = live.LivePage(PIPELINE)
    page.tell("running", None, [])
    page.close()

    assert asked[0]["security"] == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}


def test_a_whole_result_is_compared_with_its_topic_as_the_user_who_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def options(**given: str) -> None:
        asked.append(given)
        raise Asked

    reader = SimpleNamespace(format=lambda _name: SimpleNamespace(options=options))
    rows: Any = SimpleNamespace(sparkSession=SimpleNamespace(read=reader))
    sink = TopicSink(
        topic="out", mode="complete", options={"kafka.sasl.username": "writer", "batchBytes": "1m", "writer": "w"}
    )

    with pytest.raises(Asked):
        batches._changed(PIPELINE, sink, rows)

    assert asked == [
        {
            "kafka.bootstrap.servers": "127.0.0.1:9092",
            "kafka.sasl.username": "writer",
            "subscribe": "out",
            "as": "table",
        }
    ]
