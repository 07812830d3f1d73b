"""Every transcript is what its machine does today; `--golden-update` writes those that differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.stages import STAGES
from tests.golden.transcript import play

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = sorted(FOLDER.glob("*/*.txt"))


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_machine_writes_its_part_of_the_transcript(file: Path, request: pytest.FixtureRequest) -> None:
    text = file.read_text(encoding="utf-8")
    played = play(text, STAGES[file.parent.name]())
    if request.config.getoption("--golden-update", default=False):
        file.write_text(played, encoding="utf-8")
        return
    assert played.splitlines() == text.splitlines()


def test_every_machine_has_transcripts_with_records_and_replies() -> None:
    for name in STAGES:
        texts = [file.read_text(encoding="utf-8") for file in TRANSCRIPTS if file.parent.name == name]
        assert texts, name
        assert all("    record " in text and "    reply" in text for text in texts), name
