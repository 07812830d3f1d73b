from __future__ import annotations

import re
from pathlib import Path

from goqueue.config import documented_settings
from goqueue.node.config.settings_page import settings_page

PAGE = Path(__file__).parents[3] / "docs/reference/settings.md"
# These define and check settings; using one is another matter.
NOT_READERS = {"config.py", "check_config.py"}


def test_the_page_of_settings_is_current() -> None:
    assert PAGE.read_text() == settings_page(), "run `make docs`"


def test_every_setting_is_on_the_page_with_its_variable() -> None:
    page = settings_page()
    for _, name, _, variable, doc in documented_settings():
        assert f"| `{name}` |" in page
        assert f"`{variable}`" in page
        assert doc.endswith("."), f"{name}: a meaning is a sentence"


def test_every_setting_is_read_by_some_code() -> None:
    """Settings that were documented, mounted and set, and read by nothing."""
    sources = [path for path in (PAGE.parents[2] / "src/goqueue").rglob("*.py") if path.name not in NOT_READERS]
    code = "\n".join(path.read_text() for path in sources)
    unread = [f"{section}.{name}" for section, name, *_ in documented_settings() if not re.search(rf"\.{name}\b", code)]
    assert unread == []
