from __future__ import annotations

from pathlib import Path

from goqueue.config import documented_settings
from goqueue.node.settings_page import settings_page

PAGE = Path(__file__).parents[3] / "docs/reference/settings.md"


def test_the_page_of_settings_is_current() -> None:
    assert PAGE.read_text() == settings_page(), "run `make docs`"


def test_every_setting_is_on_the_page_with_its_variable() -> None:
    page = settings_page()
    for _, name, _, variable, doc in documented_settings():
        assert f"| `{name}` |" in page
        assert f"`{variable}`" in page
        assert doc.endswith("."), f"{name}: a meaning is a sentence"
