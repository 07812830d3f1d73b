"""What benchmarks say at their end: a bar that was not met fails a whole run, and never a smoke run."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.bench.command import command, finish, run, smaller
from tests.bench.measure import Bar, at_least, told

MISSED, MET, BESIDE = at_least("speed", 1, 2), at_least("speed", 3, 2), told("beside it", 4)


@pytest.mark.parametrize(
    ("bars", "quick", "code"),
    [([MET, BESIDE], False, 0), ([MET, MISSED], False, 1), ([MISSED], True, 0), ([], False, 0)],
)
def test_the_exit_code_is_that_of_the_bars(
    bars: list[Bar], quick: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(bars, quick=quick) == code
    assert capsys.readouterr().out.count("**not met**") == bars.count(MISSED)


def test_what_was_chosen_is_run_in_its_order_and_all_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    options = command("d", only=("a", "b", "c"), directory=True).parse_args(["--only", "c", "a"])
    assert run(options.only, lambda name: [told(name, 1)]) == [told("c", 1), told("a", 1)]
    assert capsys.readouterr().err.split() == ["c", "...", "c:", "1.00", "a", "...", "a:", "1.00"]
    assert (options.quick, options.directory) == (False, None)


def test_all_is_run_unless_chosen_and_nothing_unknown_is() -> None:
    parser = command("d", only=("a", "b"))
    assert parser.parse_args(["--quick"]).only == ["a", "b"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--only", "z"])
    with pytest.raises(SystemExit):
        parser.parse_args(["--directory", "here"])


def test_a_smaller_size_has_fewer_rows_and_as_many_rounds() -> None:
    @dataclass(frozen=True)
    class Scale:
        rounds: int
        rows: dict[int, int]
        backup_rows: int

    assert smaller(Scale(5, {100: 4000, 1000: 2000}, 70), 0.1) == Scale(5, {100: 400, 1000: 200}, 7)
    assert command("x", size=True).parse_args(["--size", "0.25"]).size == 0.25
