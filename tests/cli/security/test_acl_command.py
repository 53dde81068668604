"""Tests of what ``logd acl`` takes."""

from __future__ import annotations

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.security.acl import acl, check_names
from logd.errors import ConfigurationError
from logd.security.access_rules import AccessRule, Effect, Match, Operation, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def denial(name: str, match: Match = Match.LITERAL, kind: ResourceType = TOPIC) -> AccessRule:
    """Return a denial for some name."""
    return AccessRule("bob", Effect.DENY, Operation.READ, kind, name, match)


class AclCommandTests(SynchronousTestCase):
    """The arguments, without a tree."""

    def test_rules_that_would_be_for_no_topic_are_refused(self) -> None:
        """A denial for ``audit.*`` by mistake would deny nothing."""
        for name, match in (
            ("audit.*", Match.LITERAL),
            ("audit.*", Match.PREFIX),
            ("*", Match.PREFIX),
            ("caf\u00e9", Match.LITERAL),
            ("a b", Match.LITERAL),
            (".", Match.LITERAL),
            ("x" * 201, Match.LITERAL),
        ):
            with self.assertRaises(ConfigurationError, msg=name):
                check_names([denial("t"), denial(name, match)])

    def test_the_command_says_how_a_prefix_is_given(self) -> None:
        """Before it asks any tree."""
        words = ["add", "bob", "--deny", "read", "--topic", "audit.*", "--zookeeper", "127.0.0.1:1"]
        result = CliRunner().invoke(acl, words)
        self.assertEqual(result.exit_code, 2)
        self.assertIn("'audit.*' is not allowed", result.output)
        self.assertIn("--topic-prefix audit. is for all", result.output)

    def test_names_that_topics_and_groups_have_are_taken(self) -> None:
        """Also a star for all topics, a prefix that is no name by itself, and whatever groups are called."""
        check_names([denial("*"), denial("t"), denial("x" * 200), denial(".", Match.PREFIX), denial("b*", kind=GROUP)])
