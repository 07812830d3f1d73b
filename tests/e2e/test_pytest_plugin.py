"""The fixtures in the hands of a user: a pytest of its own, in a project of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "testing.md"
PLUGIN = "goqueue.testing.pytest_plugin"
# Plugins of our own environment, which a user need not have.
OTHERS = [f"-pno:{name}" for name in ("asyncio", "schemathesis", "xdist", "cacheprovider")]


def run_pytest(directory: Path, code: str, *options: str) -> str:
    """Run these tests in a directory that knows nothing of ours; returns what pytest printed."""
    (directory / "test_example.py").write_text(code)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    finished = subprocess.run(
        [sys.executable, "-X", "dev", "-m", "pytest", "-p", PLUGIN, *OTHERS, "-rA", *options],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_page_on_testing_works_as_it_stands(tmp_path):
    *tests, script = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

    printed = run_pytest(tmp_path, "\n\n".join(tests))

    assert printed.count("PASSED") == len(tests) >= 2
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "'name': 'orders'" in finished.stdout


def test_tests_share_the_session_broker_and_settings_can_be_given(tmp_path):
    code = """
import pytest

@pytest.fixture(scope="session")
def goqueue_settings():
    return {"broker.default_partitions": 5}

urls = set()

@pytest.mark.parametrize("number", [1, 2])
def test_shared(goqueue_session_broker, number):
    urls.add(goqueue_session_broker.http_url)
    assert len(urls) == 1
    assert goqueue_session_broker.client().create_topic(f"orders-{number}")["partitions"] == 5

def test_more(goqueue_broker, goqueue_new_broker):
    other = goqueue_new_broker(settings={"broker.default_partitions": 2})
    assert goqueue_broker.client().create_topic("orders")["partitions"] == 5
    assert other.client().create_topic("orders")["partitions"] == 2
"""

    assert run_pytest(tmp_path, code).count("PASSED") == 3


def test_a_run_that_uses_no_broker_does_not_import_one(tmp_path):
    code = """
import sys

def test_nothing():
    heavy = ("goqueue.node", "goqueue.broker", "aiohttp", "uvloop")
    assert not [name for name in sys.modules if name.startswith(heavy)]
"""

    assert "1 passed" in run_pytest(tmp_path, code)


def test_pytest_lists_the_fixtures_with_what_they_are(tmp_path):
    printed = run_pytest(tmp_path, "def test_nothing(): pass", "--fixtures")

    for fixture in ("broker", "clock", "session_broker", "new_broker", "settings"):
        assert re.search(rf"^goqueue_{fixture}\b.*\n    \w+", printed, re.MULTILINE)
