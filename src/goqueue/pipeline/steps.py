"""Named steps of sinks and jobs, at which a test may stop the process that reaches them.

`GOQUEUE_SPARK_STEPS=kill:staged:3:/tmp/x` kills the process that reaches the step `staged` of
batch 3, or of `any` batch, once: the file is the mark that it was done. With `hold` in place of `kill` it waits there
until `/tmp/x.go` exists, so that somebody else can be killed meanwhile. Several orders are
separated by commas. Without the variable a step costs one lookup.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

VARIABLE = "GOQUEUE_SPARK_STEPS"
_HOLD_S_MAX, _LOOK_S = 120.0, 0.01


def reached(step: str, epoch: int) -> None:
    """Tell that a step of an epoch was reached."""
    for order in filter(None, os.environ.get(VARIABLE, "").split(",")):
        act, wanted, number, mark = order.split(":", 3)
        if wanted == step and number in {str(epoch), "any"}:
            _obey(act, Path(mark))


def _obey(act: str, mark: Path) -> None:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    if act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    deadline = time.monotonic() + _HOLD_S_MAX
    while not Path(f"{mark}.go").exists() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
