"""Tests of finding topics in a query."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import UnknownTopic
from logd.spark.driver.topic_sql import named_topics, rewrite, tokens


class RewriteTests(SynchronousTestCase):
    """``topic('name')`` becomes a view's name, and nothing else changes."""

    def assert_rewritten(self, query: str, expected: str, *topics: str) -> None:
        """The query becomes another one, and names topics."""
        found = rewrite(query)
        self.assertEqual((found.text, found.topics), (expected, frozenset(topics)))

    def test_calls(self) -> None:
        """In any case and spacing, with either quotes, also raw; any name that a topic can have."""
        self.assert_rewritten("SELECT * FROM topic('a.b-c')", "SELECT * FROM `a.b-c`", "a.b-c")
        self.assert_rewritten('select 1 from TOPIC ( "a" )x', "select 1 from `a`x", "a")
        self.assert_rewritten("topic/* of */\n(\n'a' -- this\n)", "`a`", "a")
        self.assert_rewritten(r"topic(r'a') , topic('\a')", "`a` , `a`", "a")
        self.assert_rewritten("topic('a`b')", "`a``b`", "a`b")
        self.assert_rewritten("topic('a') JOIN topic('b')", "`a` JOIN `b`", "a", "b")

    def test_left_alone(self) -> None:
        """Strings, quoted names, comments, other functions, columns, and calls that are none of ours."""
        for query in (
            "SELECT 'topic(''a'')', \"topic('a')\", r'\\' FROM b",
            r"SELECT 'it\'s topic(', x FROM b",
            "SELECT 1 -- topic('a')",
            "SELECT 1 /* topic('a') /* nested */ topic('a') */ + 1",
            "SELECT `topic('a')` FROM b",
            "SELECT my_topic('a'), topics('a'), f.topic('a'), topic1('a')",
            "SELECT topic, 'a' FROM b WHERE topic = 'a' AND topic IN ('a')",
            "SELECT topic(x), topic('a', 'b'), topic()",
            "unfinished 'topic(",
            "unfinished /* topic('a')",
            "topic('a'",
        ):
            self.assert_rewritten(query, query)

    @settings(deadline=None)
    @given(st.text(alphabet="topic()'\"`/*-\\ \nar.,1", max_size=60))
    def test_any_text(self, query: str) -> None:
        """Whatever is written, tokens together are the query, and what has been rewritten once is final."""
        self.assertEqual("".join(token.text for token in tokens(query)), query)
        again = rewrite(rewrite(query).text)
        self.assertEqual(again.text, rewrite(query).text)


class NamedTopicsTests(SynchronousTestCase):
    """Which views are made."""

    def test_words(self) -> None:
        """Topics that are named as tables are, quoted or not; others are not."""
        query = rewrite("SELECT a.text, 'd' FROM a JOIN `b-1` JOIN topic('c') -- e")
        known = frozenset(["a", "b-1", "c", "d", "e"])
        self.assertEqual(named_topics(query, known), ["a", "b-1", "c"])

    def test_unknown(self) -> None:
        """A topic that is called for and does not exist is named; an unknown word is Spark's to judge."""
        with self.assertRaisesRegex(UnknownTopic, "no topic 'x'"):
            named_topics(rewrite("SELECT 1 FROM topic('x')"), frozenset())
        self.assertEqual(named_topics(rewrite("SELECT 1 FROM x"), frozenset()), [])
