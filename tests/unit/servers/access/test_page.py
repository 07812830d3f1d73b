"""The page about permissions says what the tables say."""

from __future__ import annotations

from pathlib import Path

from goqueue.servers.access.page import permissions_page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "permissions.md"


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == permissions_page(), "run make docs"
