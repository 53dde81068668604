"""Tests of logd.spark.driver.topic_sql: the topics in a query."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import UnknownTopic
from logd.spark.driver.topic_sql import named_topics, rewrite, tokens


class RewriteTests(SynchronousTestCase):
    """``rewrite``, which replaces ``topic('name')`` by a view's name."""

    def assert_rewritten(self, query: str, expected: str, *topics: str) -> None:
        """Assert that a query becomes another one, and names these topics."""
        found = rewrite(query)
        self.assertEqual((found.text, found.topics), (expected, frozenset(topics)))

    def test_a_call_of_topic_becomes_a_view(self) -> None:
        """Any case, spacing, kind of quotes and name of a topic are taken."""
        self.assert_rewritten("SELECT * FROM topic('a.b-c')", "SELECT * FROM `a.b-c`", "a.b-c")
        self.assert_rewritten('select 1 from TOPIC ( "a" )x', "select 1 from `a`x", "a")
        self.assert_rewritten("topic/* of */\n(\n'a' -- this\n)", "`a`", "a")
        self.assert_rewritten(r"topic(r'a') , topic('\a')", "`a` , `a`", "a")
        self.assert_rewritten("topic('a`b')", "`a``b`", "a`b")
        self.assert_rewritten("topic('a') JOIN topic('b')", "`a` JOIN `b`", "a", "b")

    def test_other_text_is_left_alone(self) -> None:
        """The word may stand in strings, quoted names or comments, or belong to another function."""
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
    def test_tokens_make_up_the_query_again(self, query: str) -> None:
        """A query that has been rewritten is not changed by a second time."""
        self.assertEqual("".join(token.text for token in tokens(query)), query)
        again = rewrite(rewrite(query).text)
        self.assertEqual(again.text, rewrite(query).text)


class NamedTopicsTests(SynchronousTestCase):
    """``named_topics``, the topics for which views are made."""

    def test_topics_are_named_as_tables_are(self) -> None:
        """Names may be quoted; words in strings and comments name no topic."""
        query = rewrite("SELECT a.text, 'd' FROM a JOIN `b-1` JOIN topic('c') -- e")
        known = frozenset(["a", "b-1", "c", "d", "e"])
        self.assertEqual(named_topics(query, known), ["a", "b-1", "c"])

    def test_an_unknown_topic_in_a_call_is_an_error(self) -> None:
        """An unknown word may be a table of Spark's own."""
        with self.assertRaisesRegex(UnknownTopic, "no topic 'x'"):
            named_topics(rewrite("SELECT 1 FROM topic('x')"), frozenset())
        self.assertEqual(named_topics(rewrite("SELECT 1 FROM x"), frozenset()), [])
