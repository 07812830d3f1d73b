"""Topic patterns: the regular expressions with which a member may name its topics.

Kafka evaluates them with RE2, whose time grows with the text and never explodes. Python's
`re` can be made to run for ever by a short pattern, and a client must not be able to stop
the broker, so patterns are compiled here to an automaton that is walked once per
character. What RE2 refuses (look-around, back-references) is refused here too. A pattern
must match the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from goqueue.errors import InvalidRegex
from goqueue.groups.subscription.pattern_syntax import (
    BITS,
    NOTHING,
    Choice,
    End,
    Node,
    OneOf,
    Repeat,
    Sequence,
    Start,
    parse_pattern,
)

PATTERN_CHARS_MAX = 512
# Names have at most 249 characters, so a useful pattern needs no more states than this.
_STEPS_MAX = 1_000
_WALKED_STATES_MAX = 1_000


class TopicPattern:
    """A compiled pattern. Raises `InvalidRegex` when the text is not one."""

    __slots__ = ("_states", "_walked", "text")

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_CHARS_MAX:
            raise InvalidRegex(f"a topic pattern has at most {PATTERN_CHARS_MAX} characters", field="regex")
        self.text = text
        self._states = _Compiler(parse_pattern(text)).states
        # The automaton is made deterministic as names are walked; RE2 does the same.
        self._walked: dict[frozenset[int], tuple[dict[str, frozenset[int]], bool]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        places = self._closure({0}, at_start=True, at_end=False)
        if not name:
            return _MATCH in self._closure({0}, at_start=True, at_end=True)
        for char in name:
            steps, _ = self._step_table(places)
            following = steps.get(char)
            if following is None:
                following = steps[char] = self._follow(places, BITS.get(char, NOTHING))
            if not following:
                return False
            places = following
        return self._step_table(places)[1]

    def _step_table(self, places: frozenset[int]) -> tuple[dict[str, frozenset[int]], bool]:
        table = self._walked.get(places)
        if table is None:
            if len(self._walked) >= _WALKED_STATES_MAX:
                self._walked.clear()
            accepts = _MATCH in self._closure(places, at_start=False, at_end=True)
            table = self._walked[places] = ({}, accepts)
        return table

    def _follow(self, places: frozenset[int], bit: int) -> frozenset[int]:
        states = self._states
        reached = {states[at].following[0] for at in places if at != _MATCH and states[at].mask & bit}
        return self._closure(reached, at_start=False, at_end=False)

    def _closure(self, places: Iterable[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """All states that can be reached from these without a character."""
        seen = set(places)
        waiting = list(seen)
        while waiting:
            at = waiting.pop()
            if at == _MATCH:
                continue
            state = self._states[at]
            if state.mask or (state.needs_start and not at_start) or (state.needs_end and not at_end):
                continue
            for following in state.following:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return frozenset(seen)


_MATCH = -1


class _State(NamedTuple):
    """With a mask: one character, then `following[0]`. Without: a free step to each."""

    following: tuple[int, ...]
    mask: int = NOTHING
    needs_start: bool = False
    needs_end: bool = False


class _Compiler:
    """Turns the tree into states, from its end to its start; state 0 is where to begin."""

    def __init__(self, tree: Node) -> None:
        self._steps = 0
        self.states: list[_State] = [_State(())]
        self.states[0] = _State((self._compile(tree, _MATCH),))

    def _add(self, state: _State) -> int:
        self.states.append(state)
        return len(self.states) - 1

    def _compile(self, node: Node, following: int) -> int:
        # Repetitions of repetitions multiply, of nothing too: steps are counted, not states.
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise InvalidRegex("the topic pattern is too large", field="regex")
        match node:
            case OneOf(mask):
                # An empty class never matches: a state that leads nowhere.
                return self._add(_State((following,), mask) if mask else _State(()))
            case Start():
                return self._add(_State((following,), needs_start=True))
            case End():
                return self._add(_State((following,), needs_end=True))
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._compile(part, following)
                return following
            case Choice(parts):
                return self._add(_State(tuple(self._compile(part, following) for part in parts)))
            case Repeat(part, least, most):
                return self._repeat(part, least, most, following)

    def _repeat(self, part: Node, least: int, most: int | None, following: int) -> int:
        if most is None:
            loop = self._add(_State(()))
            self.states[loop] = _State((self._compile(part, loop), following))
            entry = loop
        else:
            entry = following
            for _ in range(most - least):
                entry = self._add(_State((self._compile(part, entry), following)))
        for _ in range(least):
            entry = self._compile(part, entry)
        return entry
