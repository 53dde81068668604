"""Tests of logd.mirror.topic_names: which topics are mirrored, and their names on the target."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError, InvalidTopic
from logd.mirror.topic_names import Rename, TopicChoice


class TopicChoiceTests(SynchronousTestCase):
    """``TopicChoice`` and ``Rename``."""

    def test_the_first_rule_that_matches_names_the_copy(self) -> None:
        """A rule matches whole names; a name that no rule matches stays."""
        choice = TopicChoice("web.*", (Rename.parse(r"web\.(.*)=east.\1"), Rename.parse("web.*=rest")))
        self.assertEqual([choice.target_of(name) for name in ("web.a", "webs", "x")], ["east.a", "rest", "x"])

    def test_the_audit_goes_along_and_the_mirrors_own_topic_does_not(self) -> None:
        """The topic of pairs is about one pair of clusters."""
        choice = TopicChoice("web", (Rename.parse("(.*)=_mirror"),))
        self.assertEqual(choice.target_of("_audit"), "_audit")
        self.assertTrue(choice.subscription.fullmatch("_audit"))
        self.assertFalse(choice.subscription.fullmatch("web2"))
        self.assertRaises(InvalidTopic, choice.target_of, "_mirror")
        self.assertRaises(InvalidTopic, choice.target_of, "web")

    def test_mistakes_are_named(self) -> None:
        """In a pattern, a rule, or the group that a rule refers to."""
        for text in ("", "a", "=b", "a=", "(=b", r"a=\1", r"(.*)=\g<x>", r"(.*)=\10", r"(.*)=\q"):
            self.assertRaises(ConfigurationError, Rename.parse, text)
        self.assertRaises(ConfigurationError, TopicChoice, "(")
        for pattern in ("(?i)web", "(?!_).*", r"(a)\1"):
            self.assertRaises(ConfigurationError, TopicChoice, pattern)
        self.assertEqual(Rename.parse(r"(?P<x>.*)=\g<x>2").apply("a"), "a2")
