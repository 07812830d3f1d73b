"""The page on Spark is run as it stands, block by block."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.test_docs import BLOCK, ROOT, run

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

CHECKPOINT = Path("/tmp/goqueue-tutorial")


def test_the_page_on_spark_works_from_top_to_bottom(broker, tmp_path):
    page = (ROOT / "docs" / "tutorial" / "spark.md").read_text()
    assert str(CHECKPOINT) in page
    page = page.replace(str(CHECKPOINT), str(tmp_path / "checkpoint"))

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    for expected in ("rows: 200", "copied: 200", "tutorial", "PAGE-"):
        assert expected in shown
