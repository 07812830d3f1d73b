"""What an import of a part of the client brings with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import goqueue.client


def test_the_wire_client_comes_without_the_http_library():
    code = "import sys, goqueue.client.wire; print(any(one in sys.modules for one in ('aiohttp', 'asyncio')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_every_name_that_the_client_promises_is_there():
    assert all(getattr(goqueue.client, name) is not None for name in goqueue.client.__all__)
    assert set(goqueue.client.__all__) <= set(dir(goqueue.client))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        goqueue.client.nothing  # noqa: B018 - the lookup is what is tested
