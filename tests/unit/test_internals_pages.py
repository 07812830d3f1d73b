"""Pages that explain the code name files that exist, in the map and in every diagram."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/architecture.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs/internals").glob("*.md"))]
NAMED = re.compile(r"(?<![\w/])((?:[a-z_0-9]+/)+[a-z_0-9]+\.py|tests/golden/[a-z/]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    missing = [one for one in named if not (ROOT / one).exists() and not (ROOT / "src/goqueue" / one).exists()]
    assert missing == []


def test_every_room_says_what_lives_there_and_where_to_begin() -> None:
    rooms = [one for one in (ROOT / "src/goqueue").glob("*/*/__init__.py") if one.parts[-3] in _ROOMS_OF]
    short = [str(one.relative_to(ROOT)) for one in rooms if len(one.read_text(encoding="utf-8").splitlines()) < 5]
    assert rooms
    assert short == []


_ROOMS_OF = {"log", "groups", "delivery", "node"}
