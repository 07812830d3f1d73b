"""Tools of deployment that are not Python packages: found where `make install-tools` puts them, or on the PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def need(name: str) -> str:
    """The program's path. Without it the test is skipped, or fails where DEPLOY_TOOLS=required is set (CI)."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = shutil.which(name, path=path)
    if found is None:
        message = f"{name} is not installed (make install-tools, or Debian's package)"
        if os.environ.get("DEPLOY_TOOLS") == "required":
            pytest.fail(message)
        pytest.skip(message)
    return found
