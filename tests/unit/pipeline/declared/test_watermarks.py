"""One watermark for each stream, however many steps wait for late rows."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.pipeline.declared.checks.watermarks import delays
from goqueue.pipeline.declared.form.problems import PipelineInvalid
from goqueue.pipeline.declared.load import load_values

SINGLE = {"deduplicate": {"name": "single", "keys": ["id"], "time": "at", "watermark": "10m"}}
TOTALS = {
    "window": {"name": "totals", "time": "at", "size": "5m", "watermark": "1h", "aggregate": {"n": "count(1)"}},
}


def pipeline(*steps: dict[str, Any]) -> Any:
    sinks = [{"console": {}}]
    return load_values({"name": "p", "sources": {"t": {"topic": "t"}}, "steps": list(steps), "sinks": sinks})


def test_the_first_step_that_waits_waits_for_the_longest_delay_behind_it() -> None:
    renamed = {"sql": {"name": "named", "query": "SELECT id, at FROM single"}}

    assert delays(pipeline(SINGLE, renamed, TOTALS)) == {"single": "1h", "totals": "1h"}


def test_branches_do_not_wait_for_each_other() -> None:
    aside = {"window": {**TOTALS["window"], "name": "aside", "from": "t", "watermark": "2h"}}

    assert delays(pipeline(SINGLE, TOTALS, aside)) == {"single": "1h", "totals": "1h", "aside": "2h"}


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((TOTALS, {"window": {**TOTALS["window"], "name": "again", "time": "window_end"}}), "a second watermark"),
        ((TOTALS, {"filter": {"where": "n > 1"}}, SINGLE), "a second watermark"),
        ((SINGLE, {"filter": {"where": "id > 1"}}, {"window": {**TOTALS["window"], "time": "made"}}), "on 'at'"),
    ],
)
def test_a_step_that_would_need_another_watermark_is_refused(steps: Any, told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        pipeline(*steps)
