"""The syntax of topic patterns: text in, a tree of character sets out.

A subset of RE2's: what can matter for the name of a topic. The alphabet is that of topic
names, so a class is a set of at most 65 characters, held as a bit mask.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import NamedTuple

from goqueue.errors import InvalidRegex

_DEPTH_MAX = 100
_REPEAT_MAX = 1000

_ALPHABET = string.ascii_letters + string.digits + "._-"
BITS = {char: 1 << at for at, char in enumerate(_ALPHABET)}
NOTHING = 0
_ANY = (1 << len(_ALPHABET)) - 1


class OneOf(NamedTuple):
    """One character of a set."""

    mask: int


class Start(NamedTuple):
    """Nothing may stand before."""


class End(NamedTuple):
    """Nothing may follow."""


class Sequence(NamedTuple):
    """All parts, one after another."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """Any one of the parts."""

    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    """The part, `least` to `most` times; None: without end."""

    part: Node
    least: int
    most: int | None


Node = OneOf | Start | End | Sequence | Choice | Repeat


def parse_pattern(text: str) -> Node:
    """The tree of a pattern; `InvalidRegex` when the text is not one."""
    return _Parser(text).parse()


def _mask(chars: Iterable[str]) -> int:
    return sum(BITS[char] for char in set(chars) if char in BITS)


_DIGIT = _mask(string.digits)
_WORD = _mask(string.ascii_letters + string.digits + "_")
_CLASSES = {"d": _DIGIT, "D": _ANY & ~_DIGIT, "w": _WORD, "W": _ANY & ~_WORD, "s": NOTHING, "S": _ANY}
_POSIX = {
    "alnum": _mask(string.ascii_letters + string.digits),
    "alpha": _mask(string.ascii_letters),
    "digit": _DIGIT,
    "lower": _mask(string.ascii_lowercase),
    "upper": _mask(string.ascii_uppercase),
    "punct": _mask("._-"),
    "word": _WORD,
}


class _Parser:
    """Recursive descent over the subset of RE2's syntax that can matter for names."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignore_case = False

    def parse(self) -> Node:
        tree = self._choice(0)
        if self._at < len(self._text):
            raise self._wrong("a bracket is closed that was not opened")
        return tree

    def _choice(self, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            raise self._wrong("brackets are nested too deep")
        parts = [self._sequence(depth)]
        while self._take("|"):
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self._peek() not in {"", "|", ")"}:
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        least, most = bounds
        if max(least, most or 0) > _REPEAT_MAX or (most is not None and most < least):
            raise self._wrong("bad repetition")
        self._take("?")  # lazy or greedy: the same names match
        if self._bounds() is not None:
            raise self._wrong("a repetition of a repetition")
        return Repeat(part, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        char = self._peek()
        if char in simple:
            self._at += 1
            return simple[char]
        if char != "{":
            return None
        close = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(close, self._at + 1)].partition(",")
        if close < 0 or not _is_number(least) or (most and not _is_number(most)):
            return None  # a bracket that bounds nothing stands for itself
        self._at = close + 1
        if not comma:
            return int(least), int(least)
        return int(least), int(most) if most else None

    def _atom(self, depth: int) -> Node:
        char = self._text[self._at]
        self._at += 1
        if char == "(":
            return self._group(depth)
        if char == "[":
            return OneOf(self._class())
        if char == ".":
            return OneOf(_ANY)
        if char == "^":
            return Start()
        if char == "$":
            return End()
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise self._wrong("nothing to repeat")
        return OneOf(self._folded(BITS.get(char, NOTHING)))

    def _group(self, depth: int) -> Node:
        if self._take("?"):
            if self._take("i)"):
                self._ignore_case = True
                return Sequence(())
            if self._take("P<") or (self._peek() == "<" and self._text[self._at + 1 : self._at + 2] not in {"=", "!"}):
                self._skip_name()
            elif not self._take(":"):
                raise self._wrong("look-around and options are not supported")
        outer = self._ignore_case
        tree = self._choice(depth + 1)
        self._ignore_case = outer
        if not self._take(")"):
            raise self._wrong("a bracket is not closed")
        return tree

    def _skip_name(self) -> None:
        close = self._text.find(">", self._at)
        if close < 0:
            raise self._wrong("a group's name does not end")
        self._at = close + 1

    def _escape(self) -> Node:
        char = self._escaped_char()
        if char in _CLASSES:
            return OneOf(_CLASSES[char])
        if char == "A":
            return Start()
        if char == "z":
            return End()
        if char.isalnum():
            raise self._wrong(f"\\{char} is not supported")
        return OneOf(BITS.get(char, NOTHING))

    def _class(self) -> int:
        negated = self._take("^")
        mask = NOTHING
        first = True
        while first or self._peek() != "]":
            first = False
            mask |= self._class_item()
        self._at += 1
        mask = self._folded(mask)
        return _ANY & ~mask if negated else mask

    def _class_item(self) -> int:
        if self._take("[:"):
            close = self._text.find(":]", self._at)
            name = self._text[self._at : close] if close >= 0 else ""
            if name not in _POSIX:
                raise self._wrong("unknown character class")
            self._at = close + 2
            return _POSIX[name]
        low = self._class_char()
        if isinstance(low, int):
            return low
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in {"]", ""}:
            self._at += 1
            high = self._class_char()
            if isinstance(high, int) or high < low:
                raise self._wrong("bad range of characters")
            return _mask(char for char in _ALPHABET if low <= char <= high)
        return BITS.get(low, NOTHING)

    def _class_char(self) -> str | int:
        """One character, or the mask of a class such as that of digits."""
        char = self._peek()
        if not char:
            raise self._wrong("a class is not closed")
        self._at += 1
        if char != "\\":
            return char
        char = self._escaped_char()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum():
            raise self._wrong(f"\\{char} is not supported")
        return char

    def _escaped_char(self) -> str:
        char = self._peek()
        if not char:
            raise self._wrong("it ends in a backslash")
        self._at += 1
        return char

    def _folded(self, mask: int) -> int:
        if not self._ignore_case:
            return mask
        return mask | _mask(char.swapcase() for char in _ALPHABET if BITS[char] & mask)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        if found:
            self._at += len(expected)
        return found

    def _wrong(self, reason: str) -> InvalidRegex:
        return InvalidRegex(f"topic pattern {self._text[:80]!r}: {reason} (at {self._at})", field="regex")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5
