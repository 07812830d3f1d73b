"""Pipelines to copy, and the data to try them with."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = {
    "orders": "clean and route orders, bad ones to a dead-letter topic",
    "clicks": "sessions out of clicks, with late ones",
    "lake": "a lake table of a topic, exactly",
}


def example_text(name: str) -> str:
    """The pipeline file of an example."""
    return (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
