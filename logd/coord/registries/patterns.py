"""Patterns of topic names: regular expressions in the strict sense, matched in time linear in the name.

Every member of a group evaluates the patterns of all others. Python's own matcher can take longer than the age of the
world for ``(a+)+b`` and cannot be interrupted. So a pattern is compiled into its position automaton (Glushkov, 1961),
and matching keeps the set of positions reached: each character of a name costs one step over that set. Constructs
beyond such an automaton are refused: references to groups, lookahead and lookbehind, possessive and atomic groups.
Accepted constructs mean the same as in Python's ``re.fullmatch``.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache, reduce
from operator import or_

from attrs import define, field, frozen

#: The characters of topic names; any other character of a pattern matches nothing.
ALPHABET = string.ascii_letters + string.digits + "._-"
#: Characters of a pattern; positions of its automaton, with counted repetitions expanded; steps of its construction;
#: nesting of groups; and the largest count of a repetition: no topic's name is longer.
MOST_CHARACTERS = 1000
MOST_POSITIONS = 300
MOST_PARTS = 5000
MOST_DEPTH = 20
MOST_REPEATS = 200
#: Sets of positions of one pattern whose successors are cached.
_REMEMBERED = 4096

_BITS = {character: 1 << place for place, character in enumerate(ALPHABET)}
_ALL = (1 << len(ALPHABET)) - 1
_DIGITS = reduce(or_, (_BITS[each] for each in string.digits))
_WORDS = reduce(or_, (_BITS[each] for each in string.ascii_letters + string.digits + "_"))
_CLASSES = {"d": _DIGITS, "D": _ALL & ~_DIGITS, "w": _WORDS, "W": _ALL & ~_WORDS, "s": 0, "S": _ALL}
_UNBOUNDED = -1


@frozen
class _Part:
    """The first and last positions of a part of a pattern, as bits; ``empty``: it also matches the empty text."""

    empty: bool
    first: int
    last: int


_Maker = Callable[["_Automaton"], _Part]


@define(eq=False)
class _Automaton:
    """The automaton of one pattern, under construction."""

    #: By position: the characters that it accepts, and the positions that may follow.
    takes: list[int] = field(factory=list)
    follow: list[int] = field(factory=list)
    parts: int = 0

    def make(self, maker: _Maker) -> _Part:
        """Build one part. Raises ValueError when the pattern is too large."""
        self.parts += 1
        if self.parts > MOST_PARTS or len(self.takes) > MOST_POSITIONS:
            raise ValueError(
                f"it is too large: with its repetitions expanded it has more than {MOST_POSITIONS} characters"
            )
        return maker(self)

    def position(self, takes: int) -> _Part:
        """Return the part for one character."""
        bit = 1 << len(self.takes)
        self.takes.append(takes)
        self.follow.append(0)
        return _Part(False, bit, bit)

    def link(self, before: int, after: int) -> None:
        """Let the positions of one set follow those of another."""
        for place in _places(before):
            self.follow[place] |= after

    def behind(self, left: _Part, right: _Part) -> _Part:
        """Return one part followed by another."""
        self.link(left.last, right.first)
        return _Part(
            left.empty and right.empty,
            left.first | (right.first if left.empty else 0),
            right.last | (left.last if right.empty else 0),
        )


_NOTHING = _Part(True, 0, 0)


@define(eq=False)
class _Reached:
    """A set of positions reached, those that may follow, and the known successor for each character."""

    places: int
    allowed: int
    after: dict[str, _Reached] = field(factory=dict)


class TopicPattern:
    """One compiled pattern. Raises ValueError, with the reason, for an invalid or too large text."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"it has {len(text)} characters; allowed are {MOST_CHARACTERS}")
        made = _Automaton()
        whole = made.make(_Parser(text).parse())
        self._empty, self._first, self._last = whole.empty, whole.first, whole.last
        self._follow = made.follow
        self._taking = {
            character: sum(1 << place for place, takes in enumerate(made.takes) if takes & bit)
            for character, bit in _BITS.items()
        }
        self._begin()

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches the whole of a topic's name."""
        reached = self._start
        for character in name:
            after = reached.after.get(character)
            if after is None:
                after = self._step(reached, character)
            if not after.places:
                return False
            reached = after
        return bool(reached.places & self._last) if name else self._empty

    def _begin(self) -> None:
        """Forget the cached steps."""
        self._start = _Reached(0, self._first)
        self._known: dict[int, _Reached] = {}

    def _step(self, reached: _Reached, character: str) -> _Reached:
        places = reached.allowed & self._taking.get(character, 0)
        after = self._known.get(places)
        if after is None:
            if len(self._known) >= _REMEMBERED:
                self._begin()
            after = _Reached(places, reduce(or_, (self._follow[place] for place in _places(places)), 0))
            self._known[places] = after
        if character in _BITS:
            reached.after[character] = after
        return after


@lru_cache(1024)
def compile_pattern(text: str) -> TopicPattern:
    """Return the compiled pattern of a text, from a cache. Raises ValueError."""
    return TopicPattern(text)


def _places(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


class _Parser:
    """Parses Python's notation. Raises ValueError for invalid or unsupported syntax."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignore_case = False

    def parse(self) -> _Maker:
        """Parse the whole pattern."""
        self._flags()
        made = self._either()
        if self._at < len(self._text):
            raise self._wrong("an unbalanced parenthesis")
        return made

    def _flags(self) -> None:
        if not self._text.startswith("(?") or self._text[2:3] not in tuple("aimsux"):
            return
        letters, close, _ = self._text[2:].partition(")")
        # Names have neither line ends nor letters beyond ASCII, so the other flags change nothing.
        if not close or not set(letters) <= set("aimsu"):
            raise self._wrong(f"the flags {letters!r}")
        self._ignore_case = "i" in letters
        self._at = len(letters) + 3

    def _either(self) -> _Maker:
        choices = [self._sequence()]
        while self._take("|"):
            choices.append(self._sequence())
        if len(choices) == 1:
            return choices[0]

        def make(automaton: _Automaton) -> _Part:
            parts = [automaton.make(each) for each in choices]
            return _Part(
                any(part.empty for part in parts),
                reduce(or_, (part.first for part in parts)),
                reduce(or_, (part.last for part in parts)),
            )

        return make

    def _sequence(self) -> _Maker:
        pieces: list[_Maker] = []
        if not self._depth:
            while self._take("^") or self._take("\\A"):
                pass
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if not self._depth and self._ends():
                break
            pieces.append(self._repeated(self._atom()))

        def make(automaton: _Automaton) -> _Part:
            whole = _NOTHING
            for piece in pieces:
                whole = automaton.behind(whole, automaton.make(piece))
            return whole

        return make

    def _ends(self) -> bool:
        """Consume the anchors at the end of the pattern, or of one of its alternatives."""
        before = self._at
        while self._take("$") or self._take("\\Z"):
            pass
        if self._at == before:
            return False
        if self._at < len(self._text) and self._text[self._at] != "|":
            raise self._wrong("an anchor elsewhere than at an end")
        return True

    def _repeated(self, piece: _Maker) -> _Maker:
        counts = self._counts()
        if counts is None:
            return piece
        if self._take("+"):
            raise self._wrong("a possessive repetition")
        self._take("?")  # non-greedy: the same for whole names
        if self._at < len(self._text) and (self._text[self._at] in "*+?" or self._counts() is not None):
            raise self._wrong("a repetition of a repetition")
        least, most = counts

        def make(automaton: _Automaton) -> _Part:
            whole = _NOTHING
            for _ in range(least):
                whole = automaton.behind(whole, automaton.make(piece))
            if most == _UNBOUNDED:
                again = automaton.make(piece)
                automaton.link(again.last, again.first)
                return automaton.behind(whole, _Part(True, again.first, again.last))
            rest = _NOTHING
            for _ in range(most - least):
                one = automaton.behind(automaton.make(piece), rest)
                rest = _Part(True, one.first, one.last)
            return automaton.behind(whole, rest)

        return make

    def _counts(self) -> tuple[int, int] | None:
        for sign, counts in (("*", (0, _UNBOUNDED)), ("+", (1, _UNBOUNDED)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        inside, close, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = inside.partition(",")
        if (
            self._text[self._at : self._at + 1] != "{"
            or not close
            or not all(not each or (each.isascii() and each.isdigit()) for each in (least, most))
            or not (least or comma)
        ):
            return None  # a brace that is no repetition is literal
        if max(len(least), len(most)) > 3 or max(int(least or 0), int(most or 0)) > MOST_REPEATS:
            raise self._wrong(f"more than {MOST_REPEATS} repetitions")
        self._at += len(inside) + 2
        begin = int(least or 0)
        end = begin if not comma else int(most) if most else _UNBOUNDED
        if _UNBOUNDED < end < begin:
            raise self._wrong("a repetition with reversed bounds")
        return begin, end

    def _begins_counts(self) -> bool:
        """Return whether the brace that was just taken begins a repetition, as in ``{9}``, but not ``{a}``."""
        self._at -= 1
        if self._counts() is not None:
            return True
        self._at += 1
        return False

    def _atom(self) -> _Maker:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            takes = self._set()
        elif character == ".":
            takes = _ALL
        elif character == "\\":
            takes = self._escaped()
        elif character in "*+?" or (character == "{" and self._begins_counts()):
            raise self._wrong("a repetition of nothing")
        elif character in "^$":
            raise self._wrong("an anchor elsewhere than at an end")
        else:
            takes = self._bits(character)
        return lambda automaton: automaton.position(takes)

    def _group(self) -> _Maker:
        if self._take("?") and not self._take(":"):
            name, close, _ = self._text[self._at + 2 :].partition(">")
            if not self._text.startswith("P<", self._at) or not close or not name.isidentifier():
                raise self._wrong("a group of a special kind")
            self._at += len(name) + 3
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._wrong(f"more than {MOST_DEPTH} nested groups")
        made = self._either()
        self._depth -= 1
        if not self._take(")"):
            raise self._wrong("a parenthesis that is not closed")
        return made

    def _set(self) -> int:
        negated = self._take("^")
        found, first = 0, True
        while first or not self._take("]"):
            first = False
            low = self._member()
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._member()
                if isinstance(low, int) or isinstance(high, int) or low > high:
                    raise self._wrong("a range with reversed ends")
                found |= self._folded([each for each in _BITS if low <= each <= high], low, high)
            else:
                found |= low if isinstance(low, int) else self._bits(low)
        return _ALL & ~found if negated else found

    def _member(self) -> str | int:
        """Return one character of a set, or the characters of a class."""
        character = self._next()
        if character != "\\":
            return character
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isalnum():
            raise self._wrong(f"\\{character}")
        return character

    def _escaped(self) -> int:
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isalnum():
            raise self._wrong(f"\\{character}")
        return self._bits(character)

    def _bits(self, character: str) -> int:
        return self._folded([character], character, character)

    def _folded(self, characters: list[str], low: str, high: str) -> int:
        found = reduce(or_, (_BITS.get(each, 0) for each in characters), 0)
        if self._ignore_case:
            for each, bit in _BITS.items():
                if low <= each.lower() <= high or low <= each.upper() <= high:
                    found |= bit
        return found

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._wrong("an unexpected end")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        if found:
            self._at += len(text)
        return found

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"{what} is not supported in a pattern of topics (at character {self._at})")
