"""The picture of lanes on the comparison page shows what its text says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def plot_lanes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plot_lanes", ROOT / "tools" / "plot_lanes.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["plot_lanes"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_with_weights_every_lane_is_served_and_strictly_the_last_one_is_not() -> None:
    lanes = plot_lanes()
    weighted, strict = ([sum(lane) for lane in zip(*lanes.shares(strict=one), strict=True)] for one in (False, True))
    assert sum(weighted) == sum(strict) == lanes.STEPS * lanes.TAKEN
    assert min(weighted) > 0
    assert strict[-1] == 0


def test_lanes_that_are_always_full_are_served_by_weight() -> None:
    lanes = plot_lanes()
    given = [sum(lane) for lane in zip(*lanes.shares(strict=False, arrive=(100,) * 5), strict=True)]
    assert [round(100 * one / sum(given)) for one in given] == list(lanes.WEIGHTS)
