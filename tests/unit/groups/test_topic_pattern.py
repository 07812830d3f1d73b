"""Topic patterns: they match what `re` matches, and no pattern can stop the broker."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import InvalidRegex
from goqueue.groups.subscription.topic_pattern import PATTERN_CHARS_MAX, TopicPattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders2", "my-orders", ""]),
        ("^orders.*", ["orders", "orders-eu"], ["my-orders"]),
        (".*", ["a", "A.b_c-9"], []),
        (r"orders\.(eu|us)\.v\d+", ["orders.eu.v1", "orders.us.v27"], ["orders-eu-v1", "orders.eu.v"]),
        ("[a-c]{2,3}x?", ["ab", "abcx"], ["a", "abcdx", "abcabcx"]),
        ("[^-]+", ["a.b"], ["a-b"]),
        ("(?i)orders", ["ORDERS", "Orders"], ["order"]),
        ("(?:ab)+$", ["ab", "abab"], ["aba"]),
        ("(?P<shop>a|b)-(?<kind>x)", ["a-x", "b-x"], ["c-x"]),
        ("[[:alpha:]]+", ["abc"], ["abc1"]),
        (r"\w+\.\w+", ["a.b"], ["a-b", "ab"]),
        ("a|", ["a", ""], ["b"]),
        ("x{3}", ["xxx"], ["xx", "xxxx"]),
        ("x{2,}", ["xx", "xxxxx"], ["x"]),
        ("a{b", [], ["a"]),
    ],
)
def test_a_pattern_must_match_the_whole_name(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = TopicPattern(pattern)

    assert [name for name in matching if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "[a", "a**", "*a", "a{2}{3}*", "(?=a)", "(?<!a)b", r"(a)\1", "\\", "[z-a]", r"\bword", "a{9999}",
     "(" * 200 + ")" * 200, "x" * (PATTERN_CHARS_MAX + 1), "((a{1000}){1000}){1000}", "((){1000}){1000}"],
)  # fmt: skip
def test_what_is_not_a_pattern_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(InvalidRegex, match="pattern"):
        TopicPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+c", ".*a.*a.*a.*a.*a.*b", "(.*)*x", "(a?){100}a{100}"]
)
def test_no_pattern_takes_more_than_a_moment(pattern: str) -> None:
    compiled = TopicPattern(pattern)
    begin = time.perf_counter()

    compiled.matches("a" * 248 + "!")

    assert time.perf_counter() - begin < 1.0  # Python's `re` needs years for the first of them


_atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "(a|b)", "(?:ab)", "(^a|b$)", "-"])
_repeated = st.tuples(_atoms, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "*?"])).map("".join)
_pieces = st.one_of(_repeated, st.sampled_from(["^", "$"]))
_patterns = st.lists(_pieces, max_size=5).map("".join)


@given(st.lists(_patterns, min_size=1, max_size=3).map("|".join), st.lists(st.text("ab.-1", max_size=6), max_size=20))
def test_it_agrees_with_re(pattern: str, names: list[str]) -> None:
    reference = re.compile(pattern)
    compiled = TopicPattern(pattern)

    for name in names:
        assert compiled.matches(name) == bool(reference.fullmatch(name)), name
