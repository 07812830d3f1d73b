"""Alert rules and the runbook: they speak of metrics and commands that exist, and of each other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from typer.main import get_command

from goqueue.cli.main import app
from goqueue.config import documented_settings
from goqueue.node.metrics import broker_metrics, cluster_metrics, delivery_metrics, replication_metrics, storage_metrics
from goqueue.node.metrics.series import PREFIX, Series

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
OPERATIONS = sorted((ROOT / "docs" / "operations").glob("*.md"))
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
# What Prometheus adds to every series of a broker.
OF_EVERY_SERIES = {"instance", "job"}


def series() -> dict[str, Series]:
    found: dict[str, Series] = {}
    for module in (broker_metrics, cluster_metrics, delivery_metrics, replication_metrics, storage_metrics):
        for value in vars(module).values():
            if isinstance(value, Series):
                found |= {f"{PREFIX}{value.name}": value, f"{PREFIX}{value.name}_total": value}
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_uses_metrics_and_labels_that_the_broker_has(rule: dict[str, Any]) -> None:
    known = series()
    names = set(re.findall(r"goqueue_\w+", rule["expr"]))
    assert names <= known.keys()
    labels = OF_EVERY_SERIES.union(*(known[name].labels for name in names))
    grouped = {
        label.strip() for part in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]) for label in part.split(",")
    }
    shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert (grouped | shown) <= labels
    # What is grouped away cannot be shown.
    assert not grouped or "on (" in rule["expr"] or shown <= grouped
    assert rule["labels"]["severity"] in {"page", "ticket"}


def test_each_alert_has_a_section_in_the_runbook_and_each_section_an_alert() -> None:
    sections = re.findall(r"^## (GoQueue\w+)$", (ROOT / "docs/operations/runbook.md").read_text(), flags=re.MULTILINE)
    assert sections == [rule["alert"] for rule in RULES]


@pytest.mark.parametrize("page", OPERATIONS, ids=lambda page: page.stem)
def test_pages_of_operations_name_commands_and_settings_that_exist(page: Path) -> None:
    text = page.read_text()
    root: Any = get_command(app)
    context = Context(root)
    for words in re.findall(r"(?:^|`)goqueue\s+([a-z]+(?:\s+[a-z-]+)?)", text, flags=re.MULTILINE):
        command = root
        for word in words.split():
            if not hasattr(command, "get_command"):
                break
            command = command.get_command(context, word)
            assert command is not None, f"goqueue {words}"
    settings = {f"{section}.{name}" for section, name, *_ in documented_settings()}
    sections = {name.partition(".")[0] for name in settings}
    for section, name in re.findall(r"`([a-z]+)\.([a-z_]+)`", text):
        if section in sections:
            assert f"{section}.{name}" in settings


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_prometheus_takes_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
