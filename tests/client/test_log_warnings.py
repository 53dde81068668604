"""Tests of logd.client.log_warnings: the lines that people are shown without a log of Twisted's."""

from __future__ import annotations

from twisted.logger import Logger
from twisted.python.reflect import namedAny
from twisted.trial.unittest import SynchronousTestCase

from logd.client.log_warnings import MORE_FOR_PROGRAMS, NAMESPACES, tell_warnings, warn_by_logging
from logd.coord import paths
from tests.client.groups import Application, ClientGroupTestCase
from tests.client.producers import ProducerTestCase


class GroupWarningTests(ClientGroupTestCase):
    """A group, and nodes in the tree that cannot be read."""

    def setUp(self) -> None:
        """Collect the lines."""
        super().setUp()
        self.lines: list[str] = []
        self.addCleanup(tell_warnings(self.lines.append))

    def told(self) -> str:
        """Have one application consume all that it can, and return the only line that was shown."""
        app = Application(self).read()
        self.run_for(2.0)
        self.assertNotEqual(app.got, [])
        (line,) = self.lines
        return line

    def test_a_partition_with_an_unreadable_position_is_named(self) -> None:
        """The line says that the partition is not consumed, and names the command that mends it."""
        self.eye.create(paths.group_offset("g", "t", 2), b"9" * 30, makepath=True)
        self.run_for(0.1)
        line = self.told()
        self.assertIn("topic 't', partition 2 is not consumed, since its position cannot be read", line)
        self.assertIn("logd groups reset", line)

    def test_a_member_with_an_unreadable_entry_is_named(self) -> None:
        """A consumer ignores such a member, so the group shares out its partitions without it."""
        self.eye.create(f"{paths.group_consumers('g')}/odd", b"what?", ephemeral=True, makepath=True)
        self.run_for(0.1)
        self.assertIn("ignoring consumer odd of group g, whose entry", self.told())

    def test_a_group_in_order_shows_no_line(self) -> None:
        """Warnings that are always there would not be read."""
        Application(self).read()
        self.run_for(2.0)
        self.assertEqual(self.lines, [])


class ProgramWarningTests(ProducerTestCase):
    """Programs that use Python's ``logging``, or nothing."""

    def test_published_messages_that_are_lost_are_a_line(self) -> None:
        """A program that neither flushes nor gives ``on_error`` would hear nothing of them otherwise."""
        self.addCleanup(warn_by_logging())
        self.broker.up = False
        producer = self.producer(delivery_timeout=2.0)
        producer.publish("t", b"x")
        with self.assertLogs("logd") as logs:
            self.run_for(2.5)
            self.successResultOf(producer.close())
        self.assertEqual(len([line for line in logs.output if "1 message published to topic t" in line]), 1)


class NamespacesTests(SynchronousTestCase):
    """The names of the loggers."""

    def test_each_is_the_name_of_a_class_that_logs(self) -> None:
        """A class that was moved would be silent."""
        for name in NAMESPACES + MORE_FOR_PROGRAMS:
            kind = namedAny(name)
            loggers = [getattr(kind, each) for each, value in vars(kind).items() if isinstance(value, Logger)]
            self.assertEqual([each.namespace for each in loggers], [name])
