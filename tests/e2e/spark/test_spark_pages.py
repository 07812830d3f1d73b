"""The pages on pipelines and bulk jobs, run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.process import BrokerProcess
from tests.e2e.test_docs import BLOCK, ROOT, run


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("page", "told"),
    [
        (
            "pipelines",
            ['"name":"orders"', "119.0", "not a sale", "sales.gross-value", "wrote orders.svg", "spark-submit"],
        ),
        ("pipeline-streams", ["valid", "all 4", "visits.bonn", "stopped, told"]),
        ("tables", ["{'id': 1, 'name': 'Ada'}]", "Kiel", "Ulm", "rows", "deliveryCount"]),
        ("bulk-jobs", ["job backup", "job verify", "job restore", "offset gaps 0", "rows 1000"]),
    ],
)
def test_a_page_works_from_top_to_bottom(broker: BrokerProcess, tmp_path: Path, page: str, told: list[str]) -> None:
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text()
    assert "/tmp/goqueue-" in text
    text = text.replace("/tmp/goqueue-", f"{tmp_path}/goqueue-")

    shown = "\n".join(run(language, code, broker) for language, code in BLOCK.findall(text))

    in_one_line = " ".join(shown.split())
    assert [expected for expected in told if expected not in in_one_line] == [], shown
