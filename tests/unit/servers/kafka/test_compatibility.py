"""The page about Kafka compatibility says what the handlers say."""

from __future__ import annotations

from pathlib import Path

from goqueue.servers.kafka.compatibility import render

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "kafka-compatibility.md"


def test_the_page_is_what_the_handlers_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run python -m goqueue.servers.kafka.compatibility"
