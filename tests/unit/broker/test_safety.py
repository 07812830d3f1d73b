"""What counts as done: the table in the docs is the table in the code, and the code uses all of it."""

from __future__ import annotations

from pathlib import Path

from goqueue.broker.replicas.safety import NEEDED, Operation, Safety

ROOT = Path(__file__).parents[3]


def test_the_table_in_the_docs_is_the_one_in_the_code() -> None:
    page = (ROOT / "docs/internals/families.md").read_text()
    table = page.partition("| --- | --- | --- |\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    shown = {operation: safety for operation, safety, _ in rows}
    assert shown == {operation.value: safety.name.lower() for operation, safety in NEEDED.items()}
    assert set(shown.values()) == {one.name.lower() for one in Safety}


def test_every_operation_of_the_table_is_asked_for_somewhere() -> None:
    rooms = [ROOT / "src/goqueue" / room for room in ("delivery", "delay")]
    code = "".join(path.read_text() for room in rooms for path in sorted(room.rglob("*.py")))
    assert [one.name for one in Operation if f"Operation.{one.name}" not in code] == []
