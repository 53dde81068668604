"""Tests of patterns of topic names: they mean what Python's mean, and no pattern and no name takes long."""

from __future__ import annotations

import re
import time
import warnings

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.registries.patterns import ALPHABET, MOST_POSITIONS, TopicPattern

#: A slow machine must fail no test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_CHARACTERS = st.sampled_from("abAB01._-")
_ATOMS = st.one_of(
    _CHARACTERS.map(lambda each: "\\." if each == "." else each),
    st.sampled_from(
        [".", r"\d", r"\w", r"\W", r"\s", "[ab]", "[^a]", "[a-b0-9]", "[A-]", r"[\d_]", "[]a]", "[^]a]", "é"]
    ),
)
_COUNTS = st.sampled_from(
    ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{,2}", "{1,3}", "{0}", "{2,3}?"]
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds("({}{}){}".format, st.sampled_from(["", "?:", "?P<n>"]), inner, _COUNTS)
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        group,
    )


_PATTERNS = st.recursive(st.builds("{}{}".format, _ATOMS, _COUNTS), _grown, max_leaves=8)


class TopicPatternTests(SynchronousTestCase):
    """Patterns beside Python's own, and at their limits."""

    @_PATIENT
    @given(st.sampled_from(["", "(?i)", "(?ms)"]), _PATTERNS, st.lists(st.text(_CHARACTERS, max_size=8), max_size=20))
    def test_a_pattern_matches_what_pythons_matches(self, flags: str, text: str, names: list[str]) -> None:
        """Flags, groups, counts and alternatives mean the same if both accept the pattern."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = re.compile(flags + text)
        except re.error:
            return
        ours = TopicPattern(flags + text)
        for name in names:
            self.assertEqual(ours.matches(name), theirs.fullmatch(name) is not None, (flags + text, name))

    @_PATIENT
    @given(st.text(max_size=30), st.text(st.sampled_from("ab()[]{}*+?|\\^$.,-19:P<>"), max_size=20))
    def test_any_text_is_a_pattern_or_a_value_error(self, text: str, likely: str) -> None:
        """A pattern that Python refuses is refused here too."""
        for each in (text, likely):
            try:
                ours = TopicPattern(each)
            except ValueError:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = re.compile(each)
            for name in ("", "a", "ab", "a-9", "1"):
                self.assertEqual(ours.matches(name), theirs.fullmatch(name) is not None, (each, name))

    def test_usual_patterns_match_what_they_seem_to(self) -> None:
        """Each is tried on one name that matches and on one that does not."""
        for text, matching, other in (
            ("web-.*", "web-1", "awe"),
            ("(?i)WEB-.*", "web-1", "we"),
            (r"^web-\d+$", "web-12", "web-"),
            ("(clicks|orders)_[0-9]{4}", "orders_2011", "orders_20111"),
            ("^a$|^b$", "b", "ab"),
            (r"logs\.[a-z]{1,200}", "logs.x", "logsx"),
            ("[^_].*", "a", "_a"),
        ):
            self.assertEqual((TopicPattern(text).matches(matching), TopicPattern(text).matches(other)), (True, False))

    def test_no_name_takes_long_to_match(self) -> None:
        """A backtracking matcher never ends on some of these patterns."""
        began = time.perf_counter()
        for text in ("(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*b", "(a?){100}a{100}b", "((a*)*)*b", "(.?){100}b"):
            pattern = TopicPattern(text)
            for length in range(100, 200):
                self.assertFalse(pattern.matches("a" * length))
        self.assertLess(time.perf_counter() - began, 5.0)  # by far; it takes some 50 ms

    def test_a_pattern_that_takes_long_to_compile_is_refused(self) -> None:
        """The refusal comes at once."""
        began = time.perf_counter()
        for text in (
            "a" * 1001,
            f"a{{{MOST_POSITIONS + 1}}}",
            "((a{100}){100}){100}",
            "((((){200}){200}){200}){200}",
            "(" * 500 + "a" + ")" * 500,
            "a{1000000000000}",
        ):
            self.assertRaises(ValueError, TopicPattern, text)
        self.assertLess(time.perf_counter() - began, 5.0)

    def test_a_pattern_beyond_an_automaton_is_refused_by_name(self) -> None:
        """The error names the construct."""
        for text, word in (
            (r"(a)\1", r"\1"),
            ("(?=a)b", "special kind"),
            ("(?<!a)b", "special kind"),
            ("(?>a)b", "special kind"),
            ("a*+", "possessive"),
            ("a^b", "anchor"),
            ("(?x)a b", "flags"),
            (r"\bweb", r"\b"),
            ("*a", "nothing"),
            ("a|{9}", "nothing"),
            ("({,3})", "nothing"),
        ):
            self.assertIn(word, str(self.assertRaises(ValueError, TopicPattern, text)), text)

    def test_the_alphabet_is_that_of_topic_names(self) -> None:
        """Other characters can never be matched."""
        self.assertRegex(ALPHABET, r"\A[A-Za-z0-9._-]{65}\Z")
