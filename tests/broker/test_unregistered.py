"""Tests of the reasons that clients are told by a broker that reaches the tree and is not registered there."""

from __future__ import annotations

from logd.errors import CoordinationUnavailable
from logd.testing.memory.files import MemoryFiles
from tests.broker.members import Member, MembersTestCase


class UnregisteredTests(MembersTestCase):
    """Two brokers of one id over one tree; the second one cannot register."""

    def setUp(self) -> None:
        """Start both, at different ports."""
        super().setUp()
        self.first = self.member(1)
        self.second = Member(1, self.clock, self.host, MemoryFiles(now=self.clock.seconds), 7002)
        self.members.append(self.second)
        self.second.start()
        self.settle()

    def refusals(self, member: Member) -> list[str]:
        """Return the texts with which all changes of topics are refused."""
        topics = member.broker.administration
        texts = [str(self.assertRaises(CoordinationUnavailable, topics.check_create, "t", 1, {}))]
        for doing in (topics.create("t", 1, {}), topics.delete("t"), topics.alter("t", partitions=2)):
            error = self.error(doing)
            self.assertIsInstance(error, CoordinationUnavailable)
            texts.append(str(error))
        return texts

    def test_a_taken_id_is_named_with_its_remedy(self) -> None:
        """The reason is that of /health; another try alone would not help."""
        problem = self.second.broker.health()["problem"]
        self.assertIn("broker id 1 is taken", problem)
        self.assertIn("give one of them an id", problem)
        for text, verb in zip(self.refusals(self.second), ("created", "created", "deleted", "changed"), strict=True):
            self.assertEqual(text, f"topic 't' cannot be {verb}: this broker is not registered: {problem}")

    def test_no_reason_is_left_once_the_id_is_free(self) -> None:
        """The second broker registers, and makes topics."""
        self.outcome(self.first.stop())
        self.pass_time(2)
        self.assertEqual(self.create(self.second, "t", 1).partitions, {0: (1,)})

    def test_a_tree_that_is_away_is_another_reason(self) -> None:
        """The taken id of before may be free by now."""
        self.second.client.link.reachable = False
        self.second.client.link.cut()
        self.settle()
        for text in self.refusals(self.second):
            self.assertIn("before the coordination tree is reached", text)

    def test_topics_that_are_not_compared_yet_are_another_reason(self) -> None:
        """The broker is registered by then."""
        self.first.membership.reconciler.settled = False
        for text in self.refusals(self.first):
            self.assertIn("before this broker's topics are compared with the coordination tree: try again soon", text)
